import { defineConfig } from 'vitest/config';

// Real browsers against real servers, one file at a time: they share two cores.
export default defineConfig({
  test: {
    include: ['e2e/**/*.test.ts'],
    fileParallelism: false,
    testTimeout: 120_000,
    hookTimeout: 300_000,
  },
});
