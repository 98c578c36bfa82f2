-- What PostgreSQL makes of texts that clients send as parameters: type, text as sent, text as printed, or its SQLSTATE.
-- Each line of the answer: type, sent, printed, separated by tabs. `record` runs this.
SET timezone = 'UTC';
SET extra_float_digits = 1;
CREATE FUNCTION pg_temp.read(type text, sent text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE printed text;
BEGIN
  EXECUTE format('SELECT %L::%s::text', sent, type) INTO printed;
  RETURN printed;
EXCEPTION WHEN others THEN
  RETURN SQLSTATE;
END $$;
SELECT type, sent, pg_temp.read(type, sent) FROM (VALUES
  ('bool', ARRAY['t', 'true', 'TRUE', ' yes ', 'y', 'on', '1', 'f', 'fal', 'no', 'of', 'off', '0', 'o', '', '2', 'truee']),
  ('int2', ARRAY['1', '-1', '+1', ' 7 ', '32768', '-32768', '', '1.0', '0x10', '1e2', '99999999999999999999']),
  ('int4', ARRAY['1', '2147483648', '-2147483648', 'abc', '- 1', '1 2']),
  ('int8', ARRAY['9223372036854775807', '9223372036854775808', '-9223372036854775808', '00012', '--1']),
  ('float8', ARRAY['1', '1.5', '.5', '5.', '1e3', '1E+3', 'NaN', 'nan', 'Infinity', '-inf', 'inf', '1e400', '-1e400', ' 1.5 ', '', 'x', '1.5x', '1e', '0x10', '+1.5']),
  ('float4', ARRAY['1e39', '3.4028235e38', '0.1', '16777217']),
  ('numeric', ARRAY['1', '1.50', '-.5', '1e3', '1.5e-3', '1E5', ' 12 ', '', '1.2.3', 'abc', '1e', '+7', '000.10']),
  ('bytea', ARRAY['\x00ff', '\xABcd', '\x', '\x0', '\x0g', 'abc', 'a\\b', 'a\001b', 'a\8', '\x de ad', '\xd e']),
  ('date', ARRAY['2024-02-29', '2023-02-29', '2024-13-01', '20240229', '2024-2-9', '0001-01-01 BC', '2024-02-29 12:34:56', '2024-02-29T12:34:56Z', 'x', '', '2024-02', '10000-01-01', 'epoch', 'infinity']),
  ('time', ARRAY['12:34', '12:34:56', '12:34:56.789', '24:00:00', '24:00:01', '25:00', '12:60', '12:34:60', 'x', '12:34:56.1234567']),
  ('timestamp', ARRAY['2024-02-29 12:34:56', '2024-02-29T12:34:56', '2024-02-29T12:34:56.789Z', '2024-02-29 12:34:56+02', '2024-02-29', '2024-02-29 12:34', '2024-02-29 24:00:00',
     '2024-02-30 00:00:00', '2024-02-29 25:00', 'x', '', '2024-02-29 12:34:56 x', 'epoch', '2024-02-29  12:34:56']),
  ('timestamptz', ARRAY['2024-02-29 12:34:56+02', '2024-02-29 12:34:56-05:30', '2024-02-29 12:34:56+0530', '2024-02-29 12:34:56Z', '2024-02-29 12:34:56 UTC', '2024-02-29 12:34:56 +02:00',
     '2024-02-29T12:34:56.789+01:00', '2024-02-29 12:34:56', '2024-02-29', '2024-02-29 12:34:56+25']),
  ('interval', ARRAY['1 day', '1.5 days', '1 week', '2 hours 30 minutes', '1.5 hours', '01:02:03', '-01:02:03.5', '1 day 01:02:03', '1 year 2 mons', 'P1Y2M3DT4H5M6S', 'PT0.5S', 'P1W', '1 day ago',
     '@ 1 minute', '1.5 months', '1.5 years', '1 mon -1 day', '-1 day +02:03:04', '1d', '30s', '100ms', '5', 'x', '', '1 foo', '1 day 2', '3 days 4 hours 5 minutes 6.789 seconds', '1 decade', '1 century']),
  ('int4[]', ARRAY['{1,2,3}', '{}', '{1,NULL}', ' { 1 , 2 } ', '{1', '1,2', '{1,,2}', '{a}', '{"1","2"}']),
  ('text[]', ARRAY['{a,b}', '{"a b",c}', '{"a\"b"}', '{null,"null"}', '{a b , c}', '{a\,b}'])
) AS cases(type, texts), unnest(texts) sent;
