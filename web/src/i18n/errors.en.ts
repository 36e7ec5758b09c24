// For every error code: what happened, and what to do now.
import type { Errors } from './types';

const errors: Errors = {
  network: {
    says: 'The shop can’t be reached.',
    todo: 'Check your connection and try again. What you entered is still here.',
  },
  malformed_json: { says: 'The request was damaged on its way.', todo: 'Reload the page and try again.' },
  bad_request: { says: 'The shop did not understand the request.', todo: 'Reload the page and try again.' },
  idempotency_key_required: {
    says: 'The order came without the key that prevents double orders.',
    todo: 'Nothing was ordered. Reload the page and try again.',
  },
  idempotency_key_invalid: {
    says: 'The key that prevents double orders is damaged.',
    todo: 'Nothing was ordered. Reload the page and try again.',
  },
  unauthorized: { says: 'You are not signed in.', todo: 'Sign in and you are back where you were.' },
  bad_credentials: {
    says: 'Phone number and password don’t match.',
    todo: 'Check both and try again. No account yet? Create one.',
  },
  forbidden: { says: 'Your account is not allowed to do this.', todo: 'Sign in with an account that is.' },
  cross_site: {
    says: 'The request seemed to come from another website.',
    todo: 'Open the shop in its own tab and try again.',
  },
  challenge_failed: {
    says: 'The check was not passed.',
    todo: 'Each check can be tried once. Try again with a new one.',
  },
  not_admitted: {
    says: 'It is not your turn, or your turn is over.',
    todo: 'Join the waiting room again to get a new place.',
  },
  pass_required: {
    says: 'This sale asks for a check first.',
    todo: 'Start again: the check comes by itself.',
  },
  pass_invalid: { says: 'Your right to order has run out.', todo: 'Try again: you get a new one.' },
  not_found: { says: 'There is nothing here.', todo: 'Go back to the sales.' },
  item_not_found: {
    says: 'This item does not exist.',
    todo: 'It may have been removed. See the other sales.',
  },
  sale_not_found: { says: 'This sale does not exist.', todo: 'Check the address, or see the other sales.' },
  order_not_found: {
    says: 'You have no such order.',
    todo: 'Check the address, or see all of your orders.',
  },
  ticket_not_found: {
    says: 'Your place in the waiting room is no longer known.',
    todo: 'Join again to get a new place.',
  },
  not_waiting: {
    says: 'You are not on the waitlist.',
    todo: 'If something came free for you, it is in your orders. Otherwise you can join.',
  },
  dead_letter_not_found: {
    says: 'There is no such dead letter.',
    todo: 'It may have been settled meanwhile. Reload the list.',
  },
  method_not_allowed: {
    says: 'This can’t be done here.',
    todo: 'The page may be out of date. Reload it and try again.',
  },
  request_timeout: {
    says: 'Your connection was too slow.',
    todo: 'Try again. Nothing is ordered twice.',
  },
  sold_out: {
    says: 'Sold out: there is nothing left for this order.',
    todo: 'Orders that are not paid in time come back. Join the waitlist to be first in line, or order fewer if some are left.',
  },
  limit_reached: {
    says: 'This order would take you over the limit per person.',
    todo: 'Order fewer, or look at your orders.',
  },
  not_open: {
    says: 'The sale has not opened yet.',
    todo: 'Wait for the countdown. The page opens by itself.',
  },
  paused: {
    says: 'The seller has paused this sale.',
    todo: 'Stay here: the page goes on by itself when the sale does. Orders you have can still be paid.',
  },
  closed: {
    says: 'This sale is over.',
    todo: 'See the other sales. Orders you hold can still be paid in time.',
  },
  not_sold_out: { says: 'There are still some left.', todo: 'You don’t have to wait: buy now.' },
  waitlist_full: {
    says: 'The waitlist is full.',
    todo: 'Places come free when people leave. Try again later.',
  },
  passes_exhausted: {
    says: 'The people who are ordering right now could buy all that is left.',
    todo: 'Some of them will not. Try again in a moment.',
  },
  not_gated: { says: 'This sale has no waiting room and no check.', todo: 'Just buy.' },
  hold_expired: {
    says: 'The time to pay is over.',
    todo: 'Buy again if some are left, or join the waitlist.',
  },
  refund_due: {
    says: 'The payment came too late: nothing was left for it.',
    todo: 'You get back what you paid. You don’t have to do anything.',
  },
  already_paid: { says: 'This order is paid already.', todo: 'It can no longer be cancelled.' },
  phone_taken: {
    says: 'This phone number has an account already.',
    todo: 'Sign in with it, or use another number.',
  },
  already_published: {
    says: 'This sale is published already.',
    todo: 'Its terms can no longer change. Close it and draft another one.',
  },
  not_published: { says: 'This sale is still a draft.', todo: 'Publish it first.' },
  dead_letter_stuck: {
    says: 'It still can’t be settled.',
    todo: 'Remove the cause that its entry names, then retry.',
  },
  body_too_large: { says: 'That is too much at once.', todo: 'Send something smaller.' },
  unsupported_media_type: { says: 'This kind of content is not accepted.', todo: 'Choose another kind.' },
  invalid_request: { says: 'Something is not filled in correctly.', todo: 'Look at the marked fields.' },
  idempotency_key_reused: {
    says: 'This order was placed already, with another quantity.',
    todo: 'The first one counts. You can find it in your orders.',
  },
  otp_invalid: {
    says: 'This code is wrong or no longer valid.',
    todo: 'Check the six digits, or have a new code sent.',
  },
  rate_limited: { says: 'Too many requests in a short time.', todo: 'Wait a moment, then try again.' },
  internal: { says: 'Something went wrong on our side.', todo: 'Try again. Nothing is ordered twice.' },
  busy: { says: 'The shop is very busy right now.', todo: 'Try again in a moment.' },
  unavailable: {
    says: 'The shop can’t answer at the moment.',
    todo: 'Try again soon. Nothing is ordered twice.',
  },
};

export default errors;
