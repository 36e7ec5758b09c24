// Runs a script of this folder that is written in TypeScript: `node scripts/run.mjs figures --json`.
import { fileURLToPath } from 'node:url';
import { runnerImport } from 'vite';

const [name, ...words] = process.argv.slice(2);
const script = fileURLToPath(new URL(`${name}.ts`, import.meta.url));
try {
  const { module } = await runnerImport(script, { configFile: false, logLevel: 'error' });
  await /** @type {{ main: (words: string[]) => Promise<void> }} */ (module).main(words);
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}
