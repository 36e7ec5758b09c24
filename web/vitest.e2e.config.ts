import { defineConfig } from 'vitest/config';

// Real browsers against real servers, one file at a time: they share two cores.
export default defineConfig({
  test: {
    include: ['e2e/**/*.test.ts'],
    fileParallelism: false,
    testTimeout: 120_000,
    hookTimeout: 300_000,
    // Nothing is waited for by time: a look is repeated until it is as it should be, or never will be.
    expect: { poll: { timeout: 30_000, interval: 100 } },
  },
});
