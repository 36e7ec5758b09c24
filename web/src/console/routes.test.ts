import { expect, it } from 'vitest';
import { find } from './routes';

it('finds each page, and does not take "new" for an id', () => {
  const at = (path: string) => {
    const found = find(path);
    return found && [found.section, found.params];
  };
  expect(at('/console')).toEqual(['overview', {}]);
  expect(at('/console/')).toEqual(['overview', {}]);
  expect(at('/console/items/new')).toEqual(['items', {}]);
  expect(at('/console/sales/new')).toEqual(['sales', {}]);
  expect(at('/console/sales/s1/live')).toEqual(['sales', { id: 's1' }]);
  expect(at('/console/dead-letters')).toEqual(['deadLetters', {}]);
  expect(at('/console/nowhere')).toBeUndefined();
  expect(at('/console/sales/s1/live/more')).toBeUndefined();
});
