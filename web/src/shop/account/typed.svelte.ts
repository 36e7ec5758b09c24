// What was typed on the way into an account stays while the page is open: going from one form to the other, or changing
// the language, loses nothing. Passwords are not among it.
export const typed = $state({ phone: '', country: undefined as string | undefined, name: '' });
