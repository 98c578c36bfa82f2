// A round trip by node-influx (npm: influx). Arguments: host, port.

const assert = require('node:assert');
const Influx = require('influx');

const [host, port] = [process.argv[2], Number(process.argv[3])];
const schema = [{
  measurement: 'cpu',
  fields: { f: Influx.FieldType.FLOAT, i: Influx.FieldType.INTEGER, s: Influx.FieldType.STRING, b: Influx.FieldType.BOOLEAN },
  tags: ['host'],
}];
const pool = { requestTimeout: 180_000 };
const as = (username, password, database = 'd') => new Influx.InfluxDB({ host, port, username, password, database, schema, pool });

async function main() {
  // The first administrator, then everything as a user.
  const nobody = new Influx.InfluxDB({ host, port, pool });
  await assert.rejects(nobody.getDatabaseNames(), /create admin user first/);
  await nobody.createUser('ann', 'secret', true);
  await assert.rejects(as('ann', 'wrong').getDatabaseNames(), /authorization failed/);

  const client = as('ann', 'secret');
  const [pinged] = await client.ping(60_000);
  assert(pinged.online && pinged.version === '1.8.10', pinged.version);
  await client.createDatabase('d');
  assert.deepStrictEqual(await client.getDatabaseNames(), ['d']);
  await client.createRetentionPolicy('week', { database: 'd', duration: '7d', replication: 1, isDefault: false });
  await client.alterRetentionPolicy('week', { database: 'd', duration: '8d', replication: 1, default: false });
  const policies = await client.showRetentionPolicies('d');
  assert.strictEqual(policies.find((policy) => policy.name === 'week').duration, '192h0m0s');

  const points = [1, 2, 3].map((second) => ({
    measurement: 'cpu',
    tags: { host: 'a b' },
    fields: { f: 1.5 * second, i: second, s: 'text é "q"', b: second % 2 === 0 },
    timestamp: second,
  }));
  await client.writePoints(points, { precision: 's' });
  await client.writeMeasurement('cpu', [{ tags: { host: 'c' }, fields: { f: 9.5 }, timestamp: new Date(4000) }]);
  const rows = await client.query('SELECT * FROM cpu WHERE host = $host', { precision: 's', placeholders: { host: 'a b' } });
  assert.strictEqual(rows.length, 3);
  const { f, i, s, b, time } = rows[1];
  assert.deepStrictEqual({ f, i, s, b, host: rows[1].host }, { f: 3, i: 2, s: 'text é "q"', b: true, host: 'a b' });
  assert.strictEqual(time.getTime(), 2000);
  const groups = await client.query('SELECT mean(f) FROM cpu GROUP BY host');
  assert.deepStrictEqual(groups.groups().map((group) => [group.tags.host, group.rows[0].mean]), [['a b', 3], ['c', 9.5]]);
  const several = await client.query(['SELECT count(f) FROM cpu', 'SELECT last(i) FROM cpu']);
  assert.deepStrictEqual([several[0][0].count, several[1][0].last], [4, 3]);
  const raw = await client.queryRaw('SELECT f FROM cpu LIMIT 1', { precision: 'ms' });
  assert.deepStrictEqual(raw.results[0].series[0].values, [[1000, 1.5]]);

  assert.deepStrictEqual(await client.getMeasurements(), ['cpu']);
  assert.deepStrictEqual(await client.getSeries(), ['cpu,host=a\\ b', 'cpu,host=c']);
  await client.createContinuousQuery('c', 'SELECT mean(f) INTO "avg" FROM "cpu" GROUP BY time(1h)', 'd');
  assert.strictEqual((await client.showContinousQueries('d')).length, 1);
  await client.dropContinuousQuery('c', 'd');

  await client.createUser('bob', 'bobs');
  await client.grantPrivilege('bob', 'READ', 'd');
  assert.strictEqual((await client.getUsers()).length, 2);
  const bob = as('bob', 'bobs');
  assert.strictEqual((await bob.query('SELECT f FROM cpu')).length, 4);
  await assert.rejects(bob.writePoints(points, { precision: 's' }), /not authorized/);
  await client.setPassword('bob', 'new');
  await client.revokePrivilege('bob', 'READ', 'd');
  await assert.rejects(as('bob', 'new').query('SELECT f FROM cpu'), /not authorized/);

  await assert.rejects(client.query('SELEC'), /error parsing query/);
  await assert.rejects(client.query('SELECT f FROM nowhere..cpu'), (error) => error instanceof Influx.ResultError);
  await assert.rejects(as('ann', 'secret', 'nowhere').writePoints(points), /database not found/);
  await client.dropSeries({ where: (e) => e.tag('host').equals.value('c'), database: 'd' });
  await client.dropMeasurement('cpu', 'd');
  assert.deepStrictEqual(await client.getMeasurements(), []);
  await client.dropRetentionPolicy('week', 'd');
  await client.dropUser('bob');
  await client.dropDatabase('d');
}

main().then(() => console.log('ok'), (error) => { console.error(error); process.exit(1); });
