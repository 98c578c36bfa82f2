// What administrators set: databases and their retention, users, their grants and tokens, continuous queries, subscriptions.

import { revision } from "../server/session";
import { useState } from "preact/hooks";
import { ContinuousQueries } from "./continuous_queries";
import { Databases } from "./databases";
import { Quotas } from "./quotas";
import { Subscriptions } from "./subscriptions";
import { Tokens } from "./tokens";
import { Users } from "./users";
import { Choice } from "../ui/choice";

const SECTIONS = [
  { name: "Databases", view: Databases },
  { name: "Users", view: Users },
  { name: "Tokens", view: Tokens },
  { name: "Quotas", view: Quotas },
  { name: "Continuous queries", view: ContinuousQueries },
  { name: "Subscriptions", view: Subscriptions },
];

const NAMES = SECTIONS.map(({ name }) => name);

export function AdministrationPage() {
  const [chosen, setChosen] = useState(NAMES[0]);
  const { view: View } = SECTIONS.find(({ name }) => name === chosen)!;
  return (
    <div class="page">
      <div class="page-head">
        <h1>Administration</h1>
        <Choice label="Section" options={NAMES} value={chosen} onChoose={setChosen} />
      </div>
      <View key={`${chosen} ${revision.value}`} />
    </div>
  );
}
