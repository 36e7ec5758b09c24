// The shop as a visitor sees it: by roles, names and words.
import type { Page } from 'playwright-core';

export const shop = (page: Page) => ({
  open: (sale: { id: string }) => page.goto(`/sales/${sale.id}`),
  title: (name: string) => page.getByRole('heading', { level: 1, name }),
  signIn: page.getByRole('main').getByRole('link', { name: /^Sign in/ }),
  buy: page.getByRole('button', { name: /^Buy now/ }),
  /** After an order has ended. */
  buyAgain: page.getByRole('button', { name: /^Buy (again|one more)/ }),
  joinRoom: page.getByRole('button', { name: 'Join the waiting room' }),
  waitingRoom: page.getByText('You are in the waiting room').first(),
  hold: page.getByText('It’s yours. Pay to keep it').first(),
  pay: page.getByRole('button', { name: /^Pay / }),
  paid: page.getByText('Paid. It’s yours!').first(),
  expired: page.getByText('The time to pay is over').first(),
  cancelled: page.getByText('Order cancelled').first(),
  joinWaitlist: page.getByRole('button', { name: 'Join the waitlist' }),
  onWaitlist: page.getByText('You are on the waitlist').first(),
  offered: page.getByText(/something came back, and it is held for you/).first(),
});
