// Sends a picture to the server and reports the progress, which `fetch` can't do.
import { failureOf, type Outcome } from '../../api/client';
import type { Picture } from '../../api/schema';
import type { PictureType } from './picture';

export function upload(
  file: Blob,
  kind: PictureType,
  onprogress: (share: number) => void,
): Promise<Outcome<Picture>> {
  return new Promise((resolve) => {
    const request = new XMLHttpRequest();
    request.open('POST', '/api/v1/admin/pictures');
    request.setRequestHeader('Content-Type', kind);
    request.responseType = 'text';
    request.upload.onprogress = ({ loaded, total }) => onprogress(total > 0 ? loaded / total : 0);
    const lost = () =>
      resolve({
        ok: false,
        failure: { code: 'network', status: 0, detail: '', fields: {}, retryAfterSeconds: 1 },
      });
    request.onerror = lost;
    request.onabort = lost;
    request.onload = () => {
      const answer = parsed(request.responseText);
      if (request.status === 201) resolve({ ok: true, data: answer as Picture });
      else
        resolve({
          ok: false,
          failure: failureOf(answer, new Response(null, { status: Math.max(200, request.status) })),
        });
    };
    request.send(file);
  });
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}
