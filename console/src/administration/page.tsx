// What administrators set: databases and their retention, users, their grants and tokens, continuous queries, subscriptions.

import { revision } from "../server/session";
import { useState } from "preact/hooks";
import { ContinuousQueries } from "./continuous_queries";
import { Databases } from "./databases";
import { Subscriptions } from "./subscriptions";
import { Tokens } from "./tokens";
import { Users } from "./users";

const SECTIONS = [
  { name: "Databases", view: Databases },
  { name: "Users", view: Users },
  { name: "Tokens", view: Tokens },
  { name: "Continuous queries", view: ContinuousQueries },
  { name: "Subscriptions", view: Subscriptions },
];

export function AdministrationPage() {
  const [chosen, setChosen] = useState(0);
  const { view: View } = SECTIONS[chosen];
  return (
    <div class="page">
      <div class="page-head">
        <h1>Administration</h1>
        <div class="tabs" role="radiogroup" aria-label="Section">
          {SECTIONS.map(({ name }, i) => (
            <button key={name} type="button" role="radio" aria-checked={chosen === i} onClick={() => setChosen(i)}>
              {name}
            </button>
          ))}
        </div>
      </div>
      <View key={`${chosen} ${revision.value}`} />
    </div>
  );
}
