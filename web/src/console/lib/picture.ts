// Checks a picture before it is uploaded, by the same rules as the server.

export const MAX_PICTURE_BYTES = 1024 * 1024;
export const MAX_PICTURE_SIDE = 4096;
export const PICTURE_TYPES = ['image/png', 'image/jpeg', 'image/webp', 'image/avif', 'image/gif'] as const;
export type PictureType = (typeof PICTURE_TYPES)[number];

/** Why a picture can't be used. */
export type PictureFault = 'kind' | 'empty' | 'too_large' | 'too_many_pixels' | 'unreadable';

/** The type of the bytes, whatever the file's name. */
export function kindOf(bytes: Uint8Array): PictureType | undefined {
  const text = (from: number, to: number) => String.fromCharCode(...bytes.subarray(from, to));
  if (text(0, 8) === '\x89PNG\r\n\x1a\n') return 'image/png';
  if (bytes[0] === 0xff && bytes[1] === 0xd8 && bytes[2] === 0xff) return 'image/jpeg';
  if (text(0, 4) === 'RIFF' && text(8, 12) === 'WEBP') return 'image/webp';
  if (text(4, 8) === 'ftyp' && /^avi[fs]$/.test(text(8, 12))) return 'image/avif';
  if (/^GIF8[79]a$/.test(text(0, 6))) return 'image/gif';
  return undefined;
}

export interface LookedAt {
  kind: PictureType | undefined;
  bytes: number;
  /** Undefined if the browser could not read it. */
  size: { width: number; height: number } | undefined;
}

export function faultOf({ kind, bytes, size }: LookedAt): PictureFault | undefined {
  if (bytes === 0) return 'empty';
  if (!kind) return 'kind';
  if (bytes > MAX_PICTURE_BYTES) return 'too_large';
  if (!size) return 'unreadable';
  return Math.max(size.width, size.height) > MAX_PICTURE_SIDE ? 'too_many_pixels' : undefined;
}

/** Reads enough of the file to judge it. */
export async function lookAt(file: Blob): Promise<LookedAt> {
  const kind = kindOf(new Uint8Array(await file.slice(0, 32).arrayBuffer()));
  const looked: LookedAt = { kind, bytes: file.size, size: undefined };
  // A refused file need not be decoded.
  if (!kind || file.size > MAX_PICTURE_BYTES) return looked;
  try {
    const bitmap = await createImageBitmap(file);
    looked.size = { width: bitmap.width, height: bitmap.height };
    bitmap.close();
  } catch {
    // The size stays unknown.
  }
  return looked;
}
