// node-postgres: SCRAM, parameters whose types it does not know, named statements, errors, transactions.
const assert = require('assert');
const { Client } = require('pg');

const [host, port] = process.argv.slice(2);

async function main() {
  const client = new Client({ host, port: Number(port), user: 'ann', password: 'pencil', database: 'd' });
  await client.connect();
  const ask = async (text, values) => (await client.query(text, values)).rows;
  const refused = async (code, text, values) => {
    await assert.rejects(client.query(text, values), (error) => error.code === code, `${text}: not ${code}`);
  };
  const [row] = await ask('SELECT * FROM cpu WHERE host = $1 LIMIT $2', ['a', 1]);
  assert.deepStrictEqual(row, {
    time: new Date(1000), host: 'a', n: '3', s: 'x y', up: true, usage: 1.5, time_ns: '1000000000',
  });
  for (const [condition, value] of [
    ['usage = $1', 1.5], ['n > $1', 1], ['up = $1', true], ['time < $1', new Date(2000)], ['host = ANY($1)', [['a', 'z']][0]],
  ]) {
    assert.strictEqual((await ask(`SELECT host FROM cpu WHERE ${condition} AND host = 'a'`, [value])).length, 1, condition);
  }
  for (const value of ['z', null]) {
    const statement = { name: 'named', text: 'SELECT $1::int8 AS a, $2::text AS b', values: [1, value] };
    assert.deepStrictEqual(await ask(statement), [{ a: '1', b: value }]);
  }
  const values = await ask('SELECT $1::timestamptz AS t, $2::float8[] AS f', ['2024-01-01T00:00:00Z', [1.5, 2]]);
  assert.deepStrictEqual(values, [{ t: new Date('2024-01-01T00:00:00Z'), f: [1.5, 2] }]);
  const several = await client.query('SELECT 1 AS a; SELECT 2 AS b');
  assert.deepStrictEqual(several.map((result) => result.rows), [[{ a: 1 }], [{ b: 2 }]]);
  await refused('42703', 'SELECT nothing FROM cpu');
  await refused('22P02', 'SELECT $1::int8 AS a', ['z']);
  await ask('BEGIN');
  await refused('22012', 'SELECT 1/0');
  await refused('25P02', 'SELECT 1');
  await ask('ROLLBACK');
  assert.strictEqual((await ask('SELECT 1 AS a')).length, 1);
  await client.end();
  const stranger = new Client({ host, port: Number(port), user: 'ann', password: 'wrong', database: 'd' });
  await assert.rejects(stranger.connect(), (error) => error.code === '28P01');
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
