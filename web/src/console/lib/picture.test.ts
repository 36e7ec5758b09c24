import { expect, it } from 'vitest';
import { faultOf, kindOf, lookAt, MAX_PICTURE_BYTES } from './picture';

const bytes = (text: string) => Uint8Array.from(text, (character) => character.charCodeAt(0));
const fine = { kind: 'image/png', bytes: 2000, size: { width: 800, height: 600 } } as const;

it('recognises a picture by its bytes, not by its name', async () => {
  expect(kindOf(bytes('\x89PNG\r\n\x1a\n....'))).toBe('image/png');
  expect(kindOf(bytes('\xff\xd8\xff\xe0..'))).toBe('image/jpeg');
  expect(kindOf(bytes('RIFF....WEBPVP8 '))).toBe('image/webp');
  expect(kindOf(bytes('\0\0\0\x20ftypavif'))).toBe('image/avif');
  expect(kindOf(bytes('GIF89a..'))).toBe('image/gif');
  for (const text of ['', '<svg xmlns="…">', 'GIF90a', '\0\0\0\x20ftypisom', 'RIFF....WAVE']) {
    expect(kindOf(bytes(text)), text).toBeUndefined();
  }
  const disguised = await lookAt(new File(['<svg/>'], 'kettle.png', { type: 'image/png' }));
  expect(faultOf(disguised)).toBe('kind');
});

it('says why a picture can’t be used', () => {
  expect(faultOf(fine)).toBeUndefined();
  expect(faultOf({ ...fine, bytes: MAX_PICTURE_BYTES })).toBeUndefined();
  expect(faultOf({ ...fine, bytes: MAX_PICTURE_BYTES + 1 })).toBe('too_large');
  expect(faultOf({ ...fine, bytes: 0 })).toBe('empty');
  expect(faultOf({ ...fine, size: { width: 4097, height: 1 } })).toBe('too_many_pixels');
  expect(faultOf({ ...fine, size: { width: 4096, height: 4096 } })).toBeUndefined();
  expect(faultOf({ ...fine, size: undefined })).toBe('unreadable');
});
