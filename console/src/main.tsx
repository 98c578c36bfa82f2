// The console of nyala. `app.tsx` is the frame of all pages.

import { render } from "preact";
import "uplot/dist/uPlot.min.css";
import { App } from "./app";
import "./style/base.css";
import "./style/pages.css";
import { keepFocus } from "./ui/kept_focus";
import "./ui/theme";

const root = document.getElementById("app")!;
render(<App />, root);
keepFocus(root);
