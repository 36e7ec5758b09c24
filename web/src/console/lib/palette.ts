// The colours of charts: those of Okabe and Ito, which colour-blind people can tell apart, lighter on a dark
// background and darker on a light one. Lines also differ in their dashes.
export interface Ink {
  light: string;
  dark: string;
}

export const BLUE: Ink = { light: '#0064a8', dark: '#62b8f0' };
export const ORANGE: Ink = { light: '#b86a00', dark: '#f0ac3c' };
export const GREEN: Ink = { light: '#007a58', dark: '#3fce9f' };
export const RED: Ink = { light: '#c24a00', dark: '#ff8a4c' };
export const PURPLE: Ink = { light: '#a2467a', dark: '#e29bc4' };
export const TEAL: Ink = { light: '#2a7f9e', dark: '#8fd3ea' };
export const YELLOW: Ink = { light: '#8a7d00', dark: '#f0e442' };
export const GREY: Ink = { light: '#6b7684', dark: '#a3adbc' };

export const LINES: readonly Ink[] = [BLUE, ORANGE, GREEN, PURPLE, RED, TEAL, YELLOW, GREY];
const DASHES: readonly number[][] = [[], [7, 4], [2, 3], [9, 3, 2, 3], [4, 2]];

export function inkOf(place: number): Ink {
  return LINES[place % LINES.length] ?? GREY;
}

export function dashOf(place: number): number[] {
  return DASHES[place % DASHES.length] ?? [];
}
