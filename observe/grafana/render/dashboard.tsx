// Draws the dashboard with Grafana's own components, for a picture. What a Grafana server
// would do is done here: it asks Prometheus, and hands the answers on as data frames.
//
// Prometheus is where the page comes from; ?from and ?to are times in ms, ?scrape is the
// interval of the scrapes.
import '@fontsource/inter/latin-400.css';
import '@fontsource/inter/latin-500.css';
import {
  applyFieldOverrides, createDataFrame, createTheme, dateTime, FieldType, getFieldDisplayValues, rangeUtil, renderLegendFormat,
  standardFieldConfigEditorRegistry, ThemeContext, type DataFrame, type FieldConfigSource, type ReduceDataOptions,
} from '@grafana/data';
import { BigValue, GlobalStyles, PanelChrome, TimeSeries } from '@grafana/ui';
import type { VizLegendOptions } from '@grafana/schema';
import { useEffect, type ComponentProps } from 'react';
import { createRoot } from 'react-dom/client';
import dashboard from '../golocker.json';

type Panel = (typeof dashboard.panels)[number];
type Target = Panel['targets'][number];

const parameters = new URLSearchParams(location.search);
const time = (name: string) => dateTime(Number(parameters.get(name)));
const range = { from: time('from'), to: time('to'), raw: { from: time('from'), to: time('to') } };
const scrape = parameters.get('scrape') ?? '15s';
const theme = createTheme({ colors: { mode: 'light' } });

// Grafana's grid: 24 columns, and rows of 30 pixels, 8 apart.
const gap = 8;
const column = (innerWidth - gap) / 24;
const row = 30 + gap;

// The options of a field that applyFieldOverrides is to know. Grafana has an editor for each
// of them, for which there is no need here.
standardFieldConfigEditorRegistry.setInit(() =>
  ['unit', 'decimals', 'min', 'max', 'displayName', 'noValue', 'color', 'thresholds', 'mappings', 'custom'].map((id) => ({
    id, path: id, name: id, process: (value) => value, shouldApply: () => true,
    editor: () => null, override: () => null,
  })),
);

// What a panel of this type has where the dashboard says nothing.
const colors: Record<string, string> = { timeseries: 'palette-classic', stat: 'thresholds' };

function fieldConfig({ type, fieldConfig: { defaults, overrides } }: Panel): FieldConfigSource {
  const { thresholds } = { thresholds: undefined, ...defaults };
  return {
    defaults: {
      color: { mode: colors[type] },
      ...defaults,
      // JSON has no -Infinity, where the first step begins.
      thresholds: thresholds && { ...thresholds, steps: thresholds.steps.map((s) => ({ ...s, value: s.value ?? -Infinity })) },
    } as FieldConfigSource['defaults'],
    overrides,
  };
}

async function ask(panel: Panel, target: Target): Promise<DataFrame[]> {
  const step = rangeUtil.calculateInterval(range, panel.gridPos.w * column, scrape).intervalMs;
  const variables: Record<string, string> = {
    __rate_interval: Math.max(step + rangeUtil.intervalToMs(scrape), 4 * rangeUtil.intervalToMs(scrape)) + 'ms',
    __range: range.to.diff(range.from, 'seconds') + 's',
    ...Object.fromEntries(dashboard.templating.list.map((v) => [v.name, v.allValue ?? ''])),
  };
  const query = target.expr.replace(/\$(\w+)/g, (whole, name) => variables[name] ?? whole);
  // Both ends are multiples of the step, as they are in Grafana.
  const seconds = (ms: number) => String((Math.floor(ms / step) * step) / 1000);
  const [start, end] = [seconds(+range.from), seconds(+range.to)];
  const answer = await fetch(
    target.range
      ? '/api/v1/query_range?' + new URLSearchParams({ query, start, end, step: String(step / 1000) })
      : '/api/v1/query?' + new URLSearchParams({ query, time: end }),
  ).then((response) => response.json());
  if (answer.status !== 'success') {
    throw new Error(`${panel.title}: ${answer.error}`);
  }
  return answer.data.result.map((series: { metric: Record<string, string>; values?: [number, string][]; value: [number, string] }) => {
    const points = series.values ?? [series.value];
    return createDataFrame({
      refId: target.refId,
      fields: [
        { name: 'Time', type: FieldType.time, values: points.map(([at]) => at * 1000), config: { interval: step } },
        {
          name: 'Value', type: FieldType.number, labels: series.metric,
          values: points.map(([, text]) => (Number.isFinite(Number(text)) ? Number(text) : null)), // null is a gap
          config: target.legendFormat ? { displayNameFromDS: renderLegendFormat(target.legendFormat, series.metric) } : {},
        },
      ],
    });
  });
}

function Content({ panel, frames, width, height }: { panel: Panel; frames: DataFrame[]; width: number; height: number }) {
  const source = { fieldConfig: fieldConfig(panel), replaceVariables: (text: string) => text, theme, timeZone: 'utc' };
  const data = applyFieldOverrides({ ...source, data: frames });
  if (data.length === 0) {
    throw new Error(`${panel.title} has no data`);
  }
  switch (panel.type) {
    case 'timeseries':
      return (
        <TimeSeries
          frames={data} timeRange={range} timeZone="utc" legend={{ calcs: [], ...panel.options.legend } as VizLegendOptions}
          {...{ width, height }}
        />
      );
    case 'stat': {
      const { reduceOptions, ...options } = panel.options;
      const [value] = getFieldDisplayValues({ ...source, data, reduceOptions: reduceOptions as ReduceDataOptions });
      return (
        <BigValue
          value={value.display} {...(options as Pick<ComponentProps<typeof BigValue>, 'colorMode' | 'graphMode' | 'textMode'>)}
          {...{ width, height, theme }}
        />
      );
    }
    default:
      throw new Error(`panels of type ${panel.type} cannot be drawn`);
  }
}

// Says that all is there, which index.html waits for. Grafana's charts are painted some time
// after React is done.
async function complete() {
  const charts = dashboard.panels.filter((panel) => panel.type === 'timeseries').length;
  const painted = (canvas: HTMLCanvasElement) => canvas.getContext('2d')!.getImageData(0, 0, canvas.width, canvas.height).data.some(Boolean);
  const moment = () => new Promise((done) => setTimeout(done, 500));
  while ([...document.querySelectorAll('canvas')].filter(painted).length < charts) {
    await moment();
  }
  await moment(); // for what moves when the legends have been measured
  await fetch('/drawn', { method: 'POST' });
}

function Dashboard({ frames }: { frames: DataFrame[][] }) {
  useEffect(() => void complete(), []); // not reached if a panel throws
  return (
    <ThemeContext.Provider value={theme}>
      <GlobalStyles />
      {dashboard.panels.map((panel, i) => {
        const { x, y, w, h } = panel.gridPos;
        return (
          <div key={panel.id} style={{ position: 'absolute', left: gap + x * column, top: gap + y * row }}>
            <PanelChrome title={panel.title} description={panel.description} width={w * column - gap} height={h * row - gap}>
              {(width, height) => <Content {...{ panel, width, height }} frames={frames[i]} />}
            </PanelChrome>
          </div>
        );
      })}
    </ThemeContext.Provider>
  );
}

const frames = await Promise.all(dashboard.panels.map(async (panel) => (await Promise.all(panel.targets.map((t) => ask(panel, t)))).flat()));
await Promise.all(['400', '500'].map((weight) => document.fonts.load(weight + ' 14px Inter'))); // the canvas does not wait for them
createRoot(document.getElementById('dashboard')!).render(<Dashboard frames={frames} />);
