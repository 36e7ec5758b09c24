// Starts the console: words first, so that nothing is shown in the wrong language.
import { mount } from 'svelte';
import '../lib/renew';
import '../ui/theme.css';
import './console.css';
import { api } from '../api/client';
import { startLanguage } from '../i18n/index.svelte';
import { measure } from '../lib/clock.svelte';
import { signedOut, whoAmI } from '../lib/session.svelte';
import { find } from './routes';
import { loadWords } from './words.svelte';
import App from './App.svelte';

// Any call may find that the session is over.
api.use({
  onResponse: ({ response }) => {
    if (response.status === 401) signedOut();
  },
});

// Requested while the words are still on their way.
void whoAmI();
find(location.pathname)
  ?.load()
  // The page reports a failed load.
  .catch(() => undefined);
// Without `await`: files that share a chunk with this one would wait for it.
void startLanguage(loadWords).then(() => {
  mount(App, { target: document.getElementById('app') as HTMLElement });
  void measure();
});
