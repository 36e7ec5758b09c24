import { describe, expect, it } from 'vitest';
import { fromLocal, toLocal, zoneInWords } from './zoned';

describe('a time in the visitor’s zone', () => {
  it('is written and read back', () => {
    expect(toLocal('2026-11-11T12:00:00Z', 'Asia/Shanghai')).toBe('2026-11-11T20:00');
    expect(toLocal('2026-11-11T12:00:07Z', 'UTC')).toBe('2026-11-11T12:00:07');
    expect(fromLocal('2026-11-11T20:00', 'Asia/Shanghai')).toEqual({
      instant: '2026-11-11T12:00:00.000Z',
      happensTwice: false,
    });
    for (const zone of ['America/St_Johns', 'Asia/Kathmandu', 'Pacific/Kiritimati', 'Europe/Berlin', 'UTC']) {
      for (const instant of ['2026-01-01T00:00:00.000Z', '2026-07-01T23:59:00.000Z']) {
        expect(fromLocal(toLocal(instant, zone), zone)).toMatchObject({ instant });
      }
    }
  });

  it('does not exist when clocks are put forward', () => {
    expect(fromLocal('2026-03-29T02:30', 'Europe/Berlin')).toBe('skipped');
    expect(fromLocal('2026-03-29T03:00', 'Europe/Berlin')).toMatchObject({
      instant: '2026-03-29T01:00:00.000Z',
    });
  });

  it('happens twice when clocks are put back, and means the first', () => {
    expect(fromLocal('2026-10-25T02:30', 'Europe/Berlin')).toEqual({
      instant: '2026-10-25T00:30:00.000Z',
      happensTwice: true,
    });
  });

  it('is refused if it is not a time', () => {
    for (const text of ['', 'tomorrow', '2026-11-11', '2026-13-11T12:00', '2026-11-11 12:00']) {
      expect(fromLocal(text, 'UTC'), text).toBe('malformed');
    }
  });

  it('has a zone with a name', () => {
    expect(zoneInWords('2026-11-11T12:00:00Z', 'en', 'Asia/Shanghai')).toBe('Asia/Shanghai, GMT+8');
    expect(zoneInWords('2026-11-11T12:00:00Z', 'en', 'UTC')).toContain('UTC');
  });
});
