// The command that rehearses a sale with the chosen options. Pure.

/** The built-in scenarios. */
export const SCENARIOS = [
  'thirty-thousand-for-two-hundred',
  'unpaid',
  'bots',
  'late-opening',
  'ten-million',
] as const;

/**
 * Where the command finds the server's secrets: in its data folder, its configuration file, or the same
 * variables.
 */
export const PLACES = ['data', 'config', ''] as const;

export interface Rehearsal {
  url: string;
  place: (typeof PLACES)[number];
  /** The path of the folder or the file. */
  path: string;
  /** Empty: a plain sale. */
  scenario: string;
  /** The scenario fills in empty fields. */
  buyers: string;
  units: string;
  rate: string;
  challenge: string;
  waitingRoom: boolean;
}

export type RehearsalField = 'url' | 'path' | 'buyers' | 'units' | 'rate';

/** The invalid fields. */
export function faultyFields(chosen: Rehearsal): RehearsalField[] {
  const whole = (text: string, least: number) =>
    text.trim() === '' || (/^\d{1,9}$/.test(text.trim()) && Number(text) >= least);
  const faulty: RehearsalField[] = [];
  // The generator speaks plain HTTP.
  if (!/^http:\/\/[\w.:[\]-]+(\/[\w./~%-]*)?$/.test(chosen.url.trim())) faulty.push('url');
  // Only characters that a shell takes as part of a path.
  if (chosen.place && !/^[\w./~][\w./~@:+-]*$/.test(chosen.path.trim())) faulty.push('path');
  if (!whole(chosen.buyers, 1)) faulty.push('buyers');
  if (!whole(chosen.units, 1)) faulty.push('units');
  if (!/^(\d{1,9}(\.\d{1,3})?)?$/.test(chosen.rate.trim())) faulty.push('rate');
  return faulty;
}

export function command(chosen: Rehearsal): string {
  const words = ['penstock rush', `--url ${chosen.url.trim()}`];
  if (chosen.place) words.push(`--${chosen.place} ${chosen.path.trim()}`);
  if (chosen.scenario) words.push(`--scenario ${chosen.scenario}`);
  for (const name of ['buyers', 'units', 'rate'] as const) {
    if (chosen[name].trim()) words.push(`--${name} ${chosen[name].trim()}`);
  }
  if (chosen.challenge) words.push(`--challenge ${chosen.challenge}`);
  if (chosen.waitingRoom) words.push('--waiting-room');
  words.push('--json > rehearsal.json');
  return words.join(' ');
}
