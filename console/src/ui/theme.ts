// Dark or light: as the system says, unless the user has chosen.

import { computed, effect, signal } from "@preact/signals";

export type Theme = "system" | "dark" | "light";

const STORED = "nyala.theme";
const system = matchMedia("(prefers-color-scheme: dark)");
const systemIsDark = signal(system.matches);
system.addEventListener("change", () => (systemIsDark.value = system.matches));

export const theme = signal<Theme>((localStorage.getItem(STORED) as Theme | null) ?? "system");
export const isDark = computed(() => (theme.value === "system" ? systemIsDark.value : theme.value === "dark"));

effect(() => {
  document.documentElement.dataset.theme = isDark.value ? "dark" : "light";
  localStorage.setItem(STORED, theme.value);
});
