import { expect, it } from 'vitest';
import { command, faultyFields, type Rehearsal } from './rehearsal';

const plain: Rehearsal = {
  url: 'http://127.0.0.1:8080',
  place: '',
  path: './data',
  scenario: '',
  buyers: '',
  units: '',
  rate: '',
  challenge: '',
  waitingRoom: false,
};

it('shows exactly the command for the chosen options', () => {
  expect(command(plain)).toBe('penstock rush --url http://127.0.0.1:8080 --json > rehearsal.json');
  expect(
    command({ ...plain, scenario: 'unpaid', buyers: ' 5000 ', units: '300', rate: '0', waitingRoom: true }),
  ).toBe(
    'penstock rush --url http://127.0.0.1:8080 --scenario unpaid --buyers 5000 --units 300 --rate 0 --waiting-room --json > rehearsal.json',
  );
});

it('names the place of the server’s settings', () => {
  expect(command({ ...plain, place: 'data' })).toContain(' --data ./data --json');
  expect(command({ ...plain, place: 'config', path: ' /etc/penstock.toml ' })).toContain(
    ' --config /etc/penstock.toml --json',
  );
  for (const path of ['', '$(ls)', 'a b', '-x', 'a;b', "'"]) {
    expect(faultyFields({ ...plain, place: 'data', path }), path).toEqual(['path']);
    expect(faultyFields({ ...plain, path }), path).toEqual([]);
  }
});

it('shows no command that a shell would read differently', () => {
  expect(faultyFields(plain)).toEqual([]);
  expect(faultyFields({ ...plain, rate: '12.5', buyers: '1' })).toEqual([]);
  for (const url of ['', 'https://shop.example', 'http://a b', 'http://x/$(rm)', "http://x/'", 'ftp://x']) {
    expect(faultyFields({ ...plain, url }), url).toEqual(['url']);
  }
  expect(faultyFields({ ...plain, buyers: '0', units: '3; ls', rate: '-1' })).toEqual([
    'buyers',
    'units',
    'rate',
  ]);
});
