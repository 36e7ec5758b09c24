import { beforeEach, describe, expect, test } from 'vitest';
import { browserMemory } from './memory';

const intent = { key: 'key', quantity: 2, touchedAt: Date.now() };

beforeEach(() => localStorage.clear());

describe('the memory of a purchase', () => {
  test('survives a reload, by buyer and sale', () => {
    browserMemory().keepIntent('ada.sale', intent);
    browserMemory().keepTicket('ada.sale', { ticket: 't', from: 9 });
    expect(browserMemory().intent('ada.sale')).toEqual(intent);
    expect(browserMemory().ticket('ada.sale')).toEqual({ ticket: 't', from: 9 });
    expect(browserMemory().intent('bob.sale')).toBeUndefined();
    browserMemory().forgetIntent('ada.sale');
    browserMemory().forgetTicket('ada.sale');
    expect(browserMemory().intent('ada.sale')).toBeUndefined();
    expect(browserMemory().ticket('ada.sale')).toBeUndefined();
  });

  test('lasts as long as the page if the browser stores nothing', () => {
    const memory = browserMemory(() => {
      throw new DOMException('denied', 'SecurityError');
    });
    memory.keepIntent('ada.sale', intent);
    expect(memory.intent('ada.sale')).toEqual(intent);
    memory.forgetIntent('ada.sale');
    expect(memory.intent('ada.sale')).toBeUndefined();
  });

  test('is forgotten after a week', () => {
    const keptAt = Date.now() - 8 * 24 * 3_600_000;
    localStorage.setItem('penstock.purchase.ada.old', JSON.stringify({ ...intent, keptAt }));
    localStorage.setItem('penstock.ticket.ada.old', '{"ticket":"t","from":1}');
    localStorage.setItem('penstock.language', 'zh');
    // The server's time may differ from the visitor's.
    browserMemory().keepIntent('ada.new', { ...intent, touchedAt: keptAt });
    browserMemory().keepTicket('ada.new', { ticket: 't', from: 1 });
    browserMemory();
    expect(Object.keys(localStorage).sort()).toEqual([
      'penstock.language',
      'penstock.purchase.ada.new',
      'penstock.ticket.ada.new',
    ]);
  });

  test('ignores data of other code', () => {
    const memory = browserMemory();
    localStorage.setItem('penstock.purchase.ada.sale', '{"key":');
    localStorage.setItem('penstock.ticket.ada.sale', '{"ticket":1}');
    expect(memory.intent('ada.sale')).toBeUndefined();
    expect(memory.ticket('ada.sale')).toBeUndefined();
  });
});
