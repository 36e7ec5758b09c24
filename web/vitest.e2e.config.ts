import { defineConfig } from 'vitest/config';

// Real browsers and real servers, one file at a time: they share two cores.
export default defineConfig({
  test: {
    include: ['e2e/**/*.test.ts'],
    fileParallelism: false,
    testTimeout: 120_000,
    hookTimeout: 300_000,
    // No fixed waits: a check is repeated until it holds or times out.
    expect: { poll: { timeout: 30_000, interval: 100 } },
  },
});
