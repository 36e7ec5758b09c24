// Writes a Brotli and a gzip form of each file of dist that gets smaller by it, compressed as well as
// possible: that is done once, and the file is sent a million times.
import { readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';

const dist = new URL('../dist/', import.meta.url).pathname;

/** @type {Record<string, (bytes: Buffer) => Promise<Buffer>>} */
const compressors = {
  br: (bytes) =>
    promisify(brotliCompress)(bytes, {
      params: {
        [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY,
        [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length,
      },
    }),
  gz: (bytes) => promisify(gzip)(bytes, { level: constants.Z_BEST_COMPRESSION }),
};

for (const entry of await readdir(dist, { recursive: true, withFileTypes: true })) {
  if (!entry.isFile()) continue;
  const file = join(entry.parentPath, entry.name);
  if (/\.(br|gz)$/.test(file)) {
    // Its original is gone, or will be compressed again.
    await rm(file);
  }
}

for (const entry of await readdir(dist, { recursive: true, withFileTypes: true })) {
  if (!entry.isFile()) continue;
  const file = join(entry.parentPath, entry.name);
  const bytes = await readFile(file);
  for (const [extension, compress] of Object.entries(compressors)) {
    const compressed = await compress(bytes);
    if (compressed.length < bytes.length) await writeFile(`${file}.${extension}`, compressed);
  }
}
