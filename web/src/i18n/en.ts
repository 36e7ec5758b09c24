// The words that shop and console share, in English.
import errors from './errors.en';

const common = {
  back: 'Back',
  cancel: 'Cancel',
  save: 'Save',
  tryAgain: 'Try again',
  loading: 'Loading …',
  more: 'Show more',
  retryIn: (time: string) => `You can try again in ${time}.`,
  signIn: 'Sign in',
  signOut: 'Sign out',
  country: 'Country or region',
  phone: 'Phone number',
  phoneHint: 'With country code, such as +86 138 0013 8000',
  password: 'Password',
  days: (days: number) => (days === 1 ? '1 day' : `${days} days`),
  skip: 'Skip to the content',
};

export default { common, errors };
