// Buttons that move and zoom a plot, for who neither drags nor has keys. Beside a mouse they are seen while it is over the plot.

import { PAN, ZOOM, type Moves } from "./use_range_moves";

export function Tools({ label, moves }: { label: string; moves: Moves }) {
  const buttons: [string, string, () => void][] = [
    ["‹", "Earlier", () => moves.pan(-PAN)],
    ["−", "Wider range", () => moves.zoom(ZOOM)],
    ["+", "Narrower range", () => moves.zoom(1 / ZOOM)],
    ["›", "Later", () => moves.pan(PAN)],
  ];
  return (
    <div class="plot-tools" role="group" aria-label={`Range of ${label}`}>
      {buttons.map(([sign, name, move]) => (
        <button type="button" key={name} class="quiet" aria-label={name} title={name} onClick={move}>
          {sign}
        </button>
      ))}
    </div>
  );
}
