// Text typed while signing in or up stays while the page is open: switching forms or the language loses
// nothing. Passwords are not kept.
export const typed = $state({ phone: '', country: undefined as string | undefined, name: '' });
