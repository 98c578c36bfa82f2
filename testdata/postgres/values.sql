-- Values of every type that nyala sends, as PostgreSQL prints them and as its send functions write them.
-- Each line of the answer: type, text, bytes in hexadecimal, separated by tabs. `record` runs this.
SET timezone = 'UTC';
SET extra_float_digits = 1;
SELECT setseed(0.25) IS NULL AS seeded \gset
SELECT 'bool', v::text, encode(boolsend(v), 'hex') FROM unnest(ARRAY[true, false]) v;
SELECT 'int2', v::text, encode(int2send(v), 'hex') FROM unnest(ARRAY[0, 1, -1, 32767, -32768]::int2[]) v;
SELECT 'int4', v::text, encode(int4send(v), 'hex') FROM unnest(ARRAY[0, 1, -1, 2147483647, -2147483648]) v;
SELECT 'int8', v::text, encode(int8send(v), 'hex') FROM unnest(ARRAY[0, 1, -1, 9223372036854775807, -9223372036854775808]) v;
SELECT 'float8', v::text, encode(float8send(v), 'hex') FROM unnest(ARRAY['0', '-0', '1', '-1.5', '0.1', '0.3', '1e14', '1e15',
  '123456789012345', '1234567890123456', '999999999999999.9', '0.0001', '0.00001', '1.25e-5', '1e23', '-1e23', '9007199254740992', '9007199254740993',
  '9007199254740994', '18014398509481984', '1152921504606846976', '9.5367431640625e-07', '2.2250738585072014e-308',
  '5e-324', '1.7976931348623157e308', 'NaN', 'Infinity', '-Infinity', '1e22', '1e21', '8.41e21', '9.0608011534336e15',
  '2.0919495182368195e19', '5.764607523034235e39', '1.152921504606847e40', '3.6893488147419103e19', '6.0221409e23',
  '4503599627370495.5', '4503599627370497.5', '2251799813685248.25']::float8[]) v;
SELECT 'float8', v::text, encode(float8send(v), 'hex')
  FROM (SELECT ((random() - 0.5) * 10.0 ^ (random() * 600 - 300)::int)::float8 v FROM generate_series(1, 120)) r;
SELECT 'float8', v::text, encode(float8send(v), 'hex')
  FROM (SELECT (round((random() * 1e6)::numeric, (random() * 6)::int))::float8 v FROM generate_series(1, 60)) r;
SELECT 'float8', v::text, encode(float8send(v), 'hex') FROM (SELECT 2::float8 ^ n v FROM generate_series(-60, 100, 4) n) r;
SELECT 'float8', v::text, encode(float8send(v), 'hex') FROM (SELECT ('1e' || n)::float8 v FROM generate_series(-30, 40) n) r;
SELECT 'float4', v::text, encode(float4send(v), 'hex') FROM unnest(ARRAY['0', '-0', '1', '0.1', '1e5', '999999', '1e6', '16777216', '33554432',
  '1.17549435e-38', '1e-45', '3.4028235e38', 'NaN', 'Infinity', '-Infinity', '0.0001', '0.00001', '8388608.5', '67108864', '2e9']::float4[]) v;
SELECT 'float4', v::text, encode(float4send(v), 'hex')
  FROM (SELECT ((random() - 0.5) * 10.0 ^ (random() * 60 - 30)::int)::float4 v FROM generate_series(1, 120)) r;
SELECT 'float4', v::text, encode(float4send(v), 'hex') FROM (SELECT (2::float8 ^ n)::float4 v FROM generate_series(-60, 100, 3) n) r;
SELECT 'numeric', v::text, encode(numeric_send(v), 'hex') FROM unnest(ARRAY['0', '0.00', '1', '-1', '10', '100', '10000', '12345678', '0.1', '0.0001', '0.00001',
  '-0.5', '1.50', '100000000.00000001', '99999999999999999999999999999999999999', '-0.00000000000000000000000000000000000001', '18446744073709551615',
  '12345.678', '1000000.5', '0.000000120000', '10000.0000', '123456789.123456789', '-9999.9999']::numeric[]) v;
SELECT 'numeric', v::text, encode(numeric_send(v), 'hex')
  FROM (SELECT round(((random() - 0.5) * 10.0 ^ (random() * 18)::int)::numeric, (random() * 12)::int) v FROM generate_series(1, 60)) r;
SELECT 'text', v, encode(textsend(v), 'hex') FROM unnest(ARRAY['', 'a', 'ä€𝄞', 'two words', '\x', 'NULL']) v;
SELECT 'bytea', v::text, encode(byteasend(v), 'hex') FROM unnest(ARRAY['', '\x00', '\x00ff10ab', '\xdeadbeef']::bytea[]) v;
SELECT 'date', v::text, encode(date_send(v), 'hex') FROM unnest(ARRAY['2000-01-01', '1970-01-01', '1969-12-31', '2024-02-29', '1900-02-28', '0001-01-01', '0001-12-31 BC',
  '4713-01-01 BC', '9999-12-31', '10000-01-01', '123456-07-08', '5874897-12-31', 'infinity', '-infinity']::date[]) v;
SELECT 'time', v::text, encode(time_send(v), 'hex') FROM unnest(ARRAY['00:00', '23:59:59.999999', '12:34:56', '12:34:56.7', '01:02:03.000004', '24:00:00']::time[]) v;
SELECT 'timestamp', v::text, encode(timestamp_send(v), 'hex') FROM unnest(ARRAY['2000-01-01 00:00:00', '1970-01-01 00:00:00', '1969-12-31 23:59:59.999999', '2024-02-29 12:34:56.789',
  '1677-09-21 00:12:44', '2262-04-11 23:47:16.854775', '2024-01-01 00:00:00.000001', '1999-12-31 23:59:59.5']::timestamp[]) v;
SELECT 'timestamptz', v::text, encode(timestamptz_send(v), 'hex') FROM unnest(ARRAY['2000-01-01 00:00:00+00', '2024-02-29 12:34:56.789+02', '1969-12-31 23:59:59.999999Z',
  '1890-01-01 00:00:00-05:30']::timestamptz[]) v;
SELECT 'interval', v::text, encode(interval_send(v), 'hex') FROM unnest(ARRAY['0', '1 day', '-1 day', '1 mon', '2 years', '1 year 2 mons 3 days 04:05:06.789', '-1 year 2 mons -3 days 04:05:06',
  '1 mon -1 day', '-1 mon 1 day', '-00:00:01', '-00:00:00.000001', '1 day -01:00', '-1 day 01:00', '100:00:00', '178956970 years', '-14 mons', '-1 mon -1 day -1 sec', '11 mons 29 days 23:59:59.999999',
  '-1 years 1 mon']::interval[]) v;
SELECT 'int4[]', v, encode(array_send(v::int4[]), 'hex') FROM unnest(ARRAY['{}', '{1,2,3}', '{NULL}', '{1,NULL,-3}']) v;
SELECT 'text[]', v::text[]::text, encode(array_send(v::text[]), 'hex') FROM unnest(ARRAY['{}', '{a,b}', '{"","NULL",NULL}', '{"a b","c,d","e\"f","g\\h","{","}"}', '{ä,a}']) v;
SELECT 'float8[]', v::float8[]::text, encode(array_send(v::float8[]), 'hex') FROM unnest(ARRAY['{1.5,NaN,-Infinity}', '{1e+23,NULL}']) v;
