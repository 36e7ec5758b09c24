// Times as they are typed into a form: in the visitor's time zone, which is named next to them.

/** The visitor's time zone, such as `Asia/Shanghai`. */
export function visitorZone(): string {
  return Intl.DateTimeFormat().resolvedOptions().timeZone || 'UTC';
}

/** The difference of `zone` to UTC at that instant, in milliseconds. */
function offsetMs(instant: number, zone: string): number {
  const parts = new Intl.DateTimeFormat('en-US-u-ca-gregory-nu-latn', {
    timeZone: zone,
    hourCycle: 'h23',
    year: 'numeric',
    month: 'numeric',
    day: 'numeric',
    hour: 'numeric',
    minute: 'numeric',
    second: 'numeric',
  }).formatToParts(instant);
  const part = (type: Intl.DateTimeFormatPartTypes) =>
    Number(parts.find((candidate) => candidate.type === type)?.value ?? 0);
  const local = Date.UTC(
    part('year'),
    part('month') - 1,
    part('day'),
    part('hour'),
    part('minute'),
    part('second'),
  );
  return local - Math.floor(instant / 1000) * 1000;
}

/** For the value of a `datetime-local` field: `2026-11-11T20:00`, with seconds if there are any. */
export function toLocal(instant: string | number, zone = visitorZone()): string {
  const time = typeof instant === 'string' ? Date.parse(instant) : instant;
  const text = new Date(time + offsetMs(time, zone)).toISOString();
  return text.slice(17, 19) === '00' ? text.slice(0, 16) : text.slice(0, 19);
}

export type LocalTime = { instant: string; happensTwice: boolean } | 'malformed' | 'skipped';

/**
 * The instant of a typed time. When clocks are put forward, some times don't exist; when they are put back,
 * some happen twice, and the first is meant.
 */
export function fromLocal(text: string, zone = visitorZone()): LocalTime {
  if (!/^\d{4,6}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d{1,3})?)?$/.test(text)) return 'malformed';
  const asUtc = Date.parse(`${text}Z`);
  if (!Number.isFinite(asUtc)) return 'malformed';
  const day = 86_400_000;
  const offsets = new Set([offsetMs(asUtc - day, zone), offsetMs(asUtc + day, zone)]);
  const fits = [...offsets]
    .map((offset) => asUtc - offset)
    .filter((instant) => instant + offsetMs(instant, zone) === asUtc)
    .sort((one, other) => one - other);
  const first = fits[0];
  if (first === undefined) return 'skipped';
  return { instant: new Date(first).toISOString(), happensTwice: fits.length > 1 };
}

/** The zone with its difference to UTC then: `Asia/Shanghai, GMT+8`. */
export function zoneInWords(instant: string | number, locale: string, zone = visitorZone()): string {
  const parts = new Intl.DateTimeFormat(locale, { timeZone: zone, timeZoneName: 'shortOffset' });
  const name = parts.formatToParts(new Date(instant)).find(({ type }) => type === 'timeZoneName')?.value;
  return name && name !== zone ? `${zone}, ${name}` : zone;
}
