// The fonts of the pictures, the same on every machine: Inter, and Noto for Chinese.
import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { install } from '../e2e/support/chromium';

const PACKAGES = {
  'fonts-inter': '/usr/share/fonts/opentype/inter',
  'fonts-noto-cjk': '/usr/share/fonts/opentype/noto/NotoSansCJK-Regular.ttc',
};

/** Writes a configuration that prefers them, for `FONTCONFIG_FILE`. */
export async function preferredFonts(folder: string): Promise<string> {
  for (const [name, file] of Object.entries(PACKAGES)) if (!existsSync(file)) install(name);
  const prefer = (family: string) =>
    `<match><test name="family"><string>${family}</string></test>` +
    `<edit name="family" mode="prepend" binding="strong"><string>Inter</string><string>Noto Sans CJK SC</string></edit></match>`;
  const file = join(folder, 'fonts.conf');
  await writeFile(
    file,
    `<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd"><fontconfig>` +
      `<include>/etc/fonts/fonts.conf</include>${prefer('system-ui')}${prefer('sans-serif')}</fontconfig>\n`,
  );
  return file;
}
