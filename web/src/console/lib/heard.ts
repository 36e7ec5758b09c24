// What is read out of something that moves: a step now and then, instead of every second and every percent.

/** The last half minute that is full. */
export function heardSeconds(seconds: number): number {
  return Math.floor(seconds / 30) * 30;
}

/** The last quarter that is full. */
export function heardPercent(percent: number): number {
  return Math.floor(percent / 25) * 25;
}
