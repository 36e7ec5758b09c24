// The shop as somebody sees it: by roles and names.
import type { Page } from 'playwright-core';

export const shop = (page: Page) => ({
  open: (sale: { id: string }) => page.goto(`/sales/${sale.id}`),
  buy: page.getByRole('button', { name: 'Buy now' }),
  joinRoom: page.getByRole('button', { name: 'Join the waiting room' }),
  waitingRoom: page.getByRole('heading', { name: 'You are in the waiting room' }),
  hold: page.getByRole('heading', { name: 'It’s yours. Pay to keep it' }),
  pay: page.getByRole('button', { name: /^Pay / }),
  paid: page.getByRole('heading', { name: 'Paid. It’s yours!' }),
  expired: page.getByRole('heading', { name: 'The time to pay is over' }),
  soldOut: page.getByText('Sold out', { exact: true }).first(),
  joinWaitlist: page.getByRole('button', { name: 'Join the waitlist' }),
  onWaitlist: page.getByText('You are on the waitlist'),
  offered: page.getByRole('heading', { name: /something came back, and it is held for you/ }),
});
