// The console's beginning: words first, so that nothing is shown in the wrong language.
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

// A session that is over is asked for again, wherever that shows.
api.use({
  onResponse: ({ response }) => {
    if (response.status === 401) signedOut();
  },
});

// Asked and fetched while the words are still on their way.
void whoAmI();
find(location.pathname)
  ?.load()
  // Who can't load it is told by the page.
  .catch(() => undefined);
// Not by waiting here: files that share one with this would wait for it.
void startLanguage(loadWords).then(() => {
  mount(App, { target: document.getElementById('app') as HTMLElement });
  void measure();
});
