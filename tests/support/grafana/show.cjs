// What Grafana shows: reads panels with the answers of their queries as JSON from stdin, and writes what
// Grafana's own code makes of them as JSON to stdout.
//
// Input: [{panel, answers: {refId: result of Prometheus' API}}]
// Output, for each panel: {series: [{name, cells}]}, and for a table {columns, rows: [{column: cell}]}
// A cell is {value, text, color}: the raw value, the text on the screen, and the name of its color.
"use strict";

// @grafana/data asks the page for feature switches; while it loads, react-use must not take Node for a page
const page = { grafanaBootData: { settings: { featureToggles: {} } } };
globalThis.window = page;
globalThis.navigator ??= { language: "en-US", languages: ["en-US"] };
const grafana = require("@grafana/data");
delete globalThis.window;
const { transformV2 } = require("@grafana/prometheus");
globalThis.window = page;
const { lastValueFrom } = require("rxjs");

const theme = grafana.createTheme();
const COLORS = [
  ...["green", "semi-dark-green", "yellow", "orange", "red", "dark-red", "purple", "blue"],
  ...["text", "transparent"],
];
const names = new Map(COLORS.map((name) => [theme.visualization.getColorByName(name), name]));
names.set("#00000000", "transparent"); // of a value mapping

grafana.standardTransformersRegistry.setInit(() =>
  // some stand under an old name, too
  [...new Map(Object.values(grafana.standardTransformers).map((one) => [one.id, one])).values()].map((transformation) => ({
    id: transformation.id,
    name: transformation.name,
    transformation,
  })),
);

// What the application registers for every panel (app/core/components/OptionsUI/registry.tsx): without
// an entry an option of a field has no effect.
const PROCESSORS = {
  unit: grafana.unitOverrideProcessor,
  min: grafana.numberOverrideProcessor,
  max: grafana.numberOverrideProcessor,
  decimals: grafana.numberOverrideProcessor,
  displayName: grafana.displayNameOverrideProcessor,
  noValue: grafana.stringOverrideProcessor,
  links: grafana.dataLinksOverrideProcessor,
  thresholds: grafana.thresholdsOverrideProcessor,
  mappings: grafana.valueMappingsOverrideProcessor,
  color: grafana.identityOverrideProcessor,
};
const registry = new grafana.FieldConfigOptionsRegistry(() => [
  ...Object.entries(PROCESSORS).map(([id, process]) => option(id, id, process, false)),
  ...["cellOptions", "width", "hidden"].map((path) =>
    option(`custom.${path}`, path, grafana.identityOverrideProcessor, true),
  ),
]);

function option(id, path, process, isCustom) {
  return { id, path, name: id, process, isCustom, override: () => null, shouldApply: () => true };
}

// Frames as Grafana's server makes them of an answer of Prometheus.
// Source: Grafana, pkg/promlib/querydata/response.go, addMetadataToMultiFrame; pkg/promlib/converter
function frames(target, answer) {
  return answer.result.map((series) => {
    const points = series.values ?? [series.value];
    const name = legend(target, series.metric);
    return grafana.toDataFrame({
      refId: target.refId,
      name,
      meta: { custom: { resultType: answer.resultType } },
      fields: [
        { name: "Time", type: grafana.FieldType.time, values: points.map(([at]) => at * 1000) },
        {
          name: "Value",
          type: grafana.FieldType.number,
          labels: series.metric,
          values: points.map(([, value]) => Number(value)),
          config: name ? { displayNameFromDS: name } : {},
        },
      ],
    });
  });
}

function legend(target, labels) {
  if (target.legendFormat)
    return target.legendFormat.replace(/\{\{\s*(.+?)\s*\}\}/g, (_, label) => labels[label] ?? "");
  const { __name__: metric = "", ...others } = labels;
  const text = Object.entries(others).map(([label, value]) => `${label}="${value}"`);
  return text.length ? `${metric}{${text.join(", ")}}` : metric;
}

async function shown({ panel, answers }) {
  const targets = panel.targets.map((target) => ({ ...target, refId: target.refId || "A" }));
  const data = targets.flatMap((target) => frames(target, answers[target.refId]));
  const { data: received } = transformV2({ data }, { targets, app: "dashboard" }, {});
  const transformed = await lastValueFrom(
    grafana.transformDataFrame(panel.transformations ?? [], received),
  );
  const fielded = grafana.applyFieldOverrides({
    data: transformed,
    fieldConfig: { defaults: {}, overrides: [], ...panel.fieldConfig },
    fieldConfigRegistry: registry,
    replaceVariables: (text) => text,
    theme,
    timeZone: "utc",
  });
  if (panel.type === "stat") return { series: numbers(panel, fielded) };
  return panel.type === "table" ? rows(fielded) : { series: curves(fielded) };
}

function numbers(panel, data) {
  const found = grafana.getFieldDisplayValues({
    data,
    fieldConfig: panel.fieldConfig,
    reduceOptions: { calcs: [], ...panel.options.reduceOptions },
    replaceVariables: (text) => text,
    theme,
    timeZone: "utc",
  });
  return found.map(({ display }) => ({ name: display.title ?? "", cells: [cell(display, display.numeric)] }));
}

function curves(data) {
  return data.flatMap((frame) => {
    const times = frame.fields.find((field) => field.type === grafana.FieldType.time);
    const others = frame.fields.filter((field) => field !== times);
    return others.map((field) => ({
      name: grafana.getFieldDisplayName(field, frame, data),
      times: times.values,
      cells: field.values.map((value) => cell(field.display(value), value)),
    }));
  });
}

function rows(data) {
  if (data.length > 1) throw new Error("a table shows its first frame only: join them");
  const fields = data.flatMap((frame) =>
    frame.fields.map((field) => [grafana.getFieldDisplayName(field, frame, data), field]),
  );
  const size = data.length ? data[0].length : 0;
  return {
    columns: fields.map(([name]) => name),
    rows: Array.from({ length: size }, (_, row) =>
      Object.fromEntries(
        fields.map(([name, field]) => [name, cell(field.display(field.values[row]), field.values[row])]),
      ),
    ),
  };
}

function cell(display, value) {
  return {
    value: Number.isNaN(value) ? null : (value ?? null),
    text: grafana.formattedValueToString(display),
    color: names.get(display.color) ?? display.color ?? null,
  };
}

async function main() {
  let text = "";
  for await (const chunk of process.stdin) text += chunk;
  const answers = [];
  for (const asked of JSON.parse(text)) answers.push(await shown(asked));
  process.stdout.write(JSON.stringify(answers));
}

main().catch((error) => {
  process.stderr.write(`${error.stack}\n`);
  process.exit(1);
});
