// Errors whose words for merchants differ from those for buyers.
export default {
  network: {
    says: 'The server can’t be reached.',
    todo: 'Nothing you typed is lost. Look at the connection and try again.',
  },
  bad_credentials: { says: 'Phone number and password don’t match.', todo: 'Check both and try again.' },
  unauthorized: { says: 'Your session is over.', todo: 'Sign in again; what you typed stays.' },
  forbidden: { says: 'This needs the admin role.', todo: 'Sign in with an account that has it.' },
  sale_not_found: { says: 'There is no such sale.', todo: 'Look for it in the list of sales.' },
  item_not_found: { says: 'There is no such item.', todo: 'Look for it in the list of items.' },
  not_published: { says: 'The sale is still a draft.', todo: 'Publish it first.' },
  already_published: {
    says: 'The sale has been published in the meantime; its terms are fixed.',
    todo: 'Look at it again. Units can still be added.',
  },
  closed: { says: 'The sale is closed for good.', todo: 'Draft another like it.' },
  invalid_request: {
    says: 'Some fields are not right yet.',
    todo: 'See the note at each one. Nothing you typed is lost.',
  },
  body_too_large: { says: 'That is more than the server takes.', todo: 'Make it smaller and try again.' },
  unsupported_media_type: {
    says: 'The server doesn’t take this kind of file.',
    todo: 'Use a PNG, JPEG, WebP, AVIF or GIF.',
  },
  request_timeout: {
    says: 'What you sent took too long to arrive.',
    todo: 'Look at the connection and try again.',
  },
  busy: {
    says: 'The server is already doing this, or has too much else to do.',
    todo: 'Try again in a moment.',
  },
  unavailable: {
    says: 'A part of the shop can’t be reached at the moment.',
    todo: 'Accepted orders are safe. Look at the nodes on the overview, and try again.',
  },
  internal: { says: 'The server failed.', todo: 'Try again; its log says why.' },
  dead_letter_stuck: { says: 'It still can’t be settled.', todo: 'Remove the cause, then retry.' },
  dead_letter_not_found: {
    says: 'There is no such dead letter.',
    todo: 'It may be settled: refresh the list.',
  },
};
