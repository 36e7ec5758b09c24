import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig, type Plugin } from 'vite';

/** Like the server: every address under /console is the console. */
const consoleAddresses: Plugin = {
  name: 'console-addresses',
  configureServer: (server) => {
    server.middlewares.use((request, _, next) => {
      if (/^\/console([/?]|$)/.test(request.url ?? '')) request.url = '/console.html';
      next();
    });
  },
};

// Two pages with shared code. The server's policy allows nothing inline and no other host.
export default defineConfig({
  plugins: [svelte(), consoleAddresses],
  build: {
    target: 'es2022',
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    rolldownOptions: {
      input: ['index.html', 'console.html'],
      // One file for what every page needs, and one for what the first view of shop or console needs: each
      // request costs time, too.
      output: {
        codeSplitting: {
          groups: [
            {
              name: 'base',
              test: /node_modules\/(svelte|openapi-fetch|esm-env|clsx)\/|\/src\/(api|lib\/(?!countries)|ui\/(?!PhoneField)|i18n\/index)/,
            },
            // Needed only to sign in, in the shop or in the console.
            { name: 'phone', test: /\/src\/(lib\/countries|ui\/PhoneField)/ },
            {
              name: 'console',
              test: /\/src\/console\/(\w+\.|words\.|pages\/Overview|parts\/(Chip|Heading|Icon|Nodes|Picture\.|SignIn|Stock|Tile|Trouble)|lib\/(fetched|live|drafts|words-of|pages))/,
            },
            {
              name: 'shop',
              test: /\/src\/shop\/(\w+\.|words\.|parts\/|pages\/(Home|SalePage)|sale\/(Panel|Quantity|SoldOut|phase|watch)|orders\/state|account\/return)/,
            },
            // What the pages of a sale and of orders share.
            {
              name: 'orders',
              test: /\/src\/shop\/(orders\/(OrderStage|Paying|Refund|desk)|purchase\/(memory|patience))/,
            },
          ],
        },
      },
    },
  },
  worker: { format: 'es' },
  // `npm run dev` serves the sources; the API comes from a server running next to it.
  server: {
    host: '127.0.0.1',
    proxy: Object.fromEntries(
      ['/api', '/pictures', '/errors', '/docs', '/openapi.json'].map((path) => [
        path,
        process.env['PENSTOCK_URL'] ?? 'http://127.0.0.1:8080',
      ]),
    ),
  },
});
