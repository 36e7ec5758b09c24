// Solves a proof of work outside the page's thread, so that the page stays responsive.
import { partDone, search } from './pow';

const CHUNK = 4_096;

addEventListener('message', ({ data }: MessageEvent<{ salt: string; difficulty: number }>) => {
  const salt = new TextEncoder().encode(data.salt);
  for (let from = 0; ; from += CHUNK) {
    const answer = search(salt, data.difficulty, from, CHUNK);
    if (answer !== undefined) {
      postMessage({ answer });
      return;
    }
    postMessage({ part: partDone(from + CHUNK, data.difficulty) });
  }
});
