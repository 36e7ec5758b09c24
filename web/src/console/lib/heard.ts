// What a screen reader says of a moving value: a step now and then, instead of every second and every
// percent.

/** Rounded down to half minutes. */
export function heardSeconds(seconds: number): number {
  return Math.floor(seconds / 30) * 30;
}

/** Rounded down to quarters. */
export function heardPercent(percent: number): number {
  return Math.floor(percent / 25) * 25;
}
