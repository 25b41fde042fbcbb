// Costs one request again and again with graphql-query-complexity. The first line of
// standard input is {"schema": SDL, "body": a request's body, "weights": {"Type.field":
// what is added}, "decode": whether the body is decoded each time}; the answer is the
// complexity. Then each line is how often to cost the request, and the answer how many
// nanoseconds of processor time that took.
'use strict';

const readline = require('node:readline');
const { buildSchema, parse } = require('graphql');
const { fieldExtensionsEstimator, getComplexity, simpleEstimator } = require('graphql-query-complexity');

const estimators = [fieldExtensionsEstimator(), simpleEstimator({ defaultComplexity: 1 })];

// The lists cost as many entries as they ask for.
function weigh(schema, weights) {
  for (const [path, add] of Object.entries(weights)) {
    const [type, field] = path.split('.');
    schema.getType(type).getFields()[field].extensions.complexity =
      ({ args, childComplexity }) => args.first * childComplexity + add;
  }
  return schema;
}

function cost(schema, { query, variables, operationName }) {
  return getComplexity({ schema, query: parse(query), variables, operationName, estimators });
}

let costOnce, complexity;

function prepare(setup) {
  const schema = weigh(buildSchema(setup.schema), setup.weights);
  const request = JSON.parse(setup.body);
  costOnce = setup.decode ? () => cost(schema, JSON.parse(setup.body)) : () => cost(schema, request);
  return (complexity = costOnce());
}

function run(times) {
  const start = process.cpuUsage(); // microseconds
  for (let n = times; n > 0; n--) {
    if (costOnce() !== complexity) throw new Error('the complexity changed');
  }
  const { user, system } = process.cpuUsage(start);
  return (user + system) * 1000;
}

readline.createInterface({ input: process.stdin }).on('line', (line) => {
  console.log(String(costOnce ? run(Number(line)) : prepare(JSON.parse(line))));
});
