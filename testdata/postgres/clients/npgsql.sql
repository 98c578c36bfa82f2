-- npgsql/npgsql: what it asks when a data source opens its first connection (`PostgresDatabaseInfo.cs`), and for the schema of a
-- result (`DbColumnSchemaGenerator.cs`).

-- the version
-- simple
-- nyala says who it is behind PostgreSQL's version
-- without version
SELECT version();

-- types
-- types differ
-- unordered
-- only nspname = pg_catalog
-- only typname = _?(bool|bytea|char|name|int8|int2|int2vector|int4|regproc|text|oid|oidvector|json|float4|float8|unknown|bpchar|varchar|date|time|timestamp|timestamptz|interval|timetz|bit|varbit|numeric|record|void|uuid|jsonb|regclass|regtype|xid|inet|cidr|xml)
SELECT ns.nspname, t.oid, t.typname, t.typtype, t.typnotnull, t.elemtypoid
FROM (
    -- Arrays have typtype=b - this subquery identifies them by their typreceive and converts their typtype to a
    -- We first do this for the type (innerest-most subquery), and then for its element type
    -- This also returns the array element, range subtype and domain base type as elemtypoid
    SELECT
        typ.oid, typ.typnamespace, typ.typname, typ.typtype, typ.typrelid, typ.typnotnull, typ.relkind,
        elemtyp.oid AS elemtypoid, elemtyp.typname AS elemtypname, elemcls.relkind AS elemrelkind,
        CASE WHEN elemproc.proname='array_recv' THEN 'a' ELSE elemtyp.typtype END AS elemtyptype
        , typ.typcategory
    FROM (
        SELECT typ.oid, typnamespace, typname, typrelid, typnotnull, relkind, typelem AS elemoid,
            CASE WHEN proc.proname='array_recv' THEN 'a' ELSE typ.typtype END AS typtype,
            CASE
                WHEN proc.proname='array_recv' THEN typ.typelem
                WHEN typ.typtype='r' THEN rngsubtype
                WHEN typ.typtype='m' THEN (SELECT rngtypid FROM pg_range WHERE rngmultitypid = typ.oid)
                WHEN typ.typtype='d' THEN typ.typbasetype
            END AS elemtypoid
            , typ.typcategory
        FROM pg_type AS typ
        LEFT JOIN pg_class AS cls ON (cls.oid = typ.typrelid)
        LEFT JOIN pg_proc AS proc ON proc.oid = typ.typreceive
        LEFT JOIN pg_range ON (pg_range.rngtypid = typ.oid)
    ) AS typ
    LEFT JOIN pg_type AS elemtyp ON elemtyp.oid = elemtypoid
    LEFT JOIN pg_class AS elemcls ON (elemcls.oid = elemtyp.typrelid)
    LEFT JOIN pg_proc AS elemproc ON elemproc.oid = elemtyp.typreceive
) AS t
JOIN pg_namespace AS ns ON (ns.oid = typnamespace)
WHERE
    (typtype IN ('b', 'r', 'm', 'e', 'd') OR -- Base, range, multirange, enum, domain
    (typtype = 'c' AND relkind='c') OR -- User-defined free-standing composites (not table composites) by default
    (typtype = 'p' AND typname IN ('record', 'void', 'unknown')) OR -- Some special supported pseudo-types
    (typtype = 'a' AND (  -- Array of...
        elemtyptype IN ('b', 'r', 'm', 'e', 'd') OR -- Array of base, range, multirange, enum, domain
        (elemtyptype = 'p' AND elemtypname IN ('record', 'void')) OR -- Arrays of special supported pseudo-types
        (elemtyptype = 'c' AND elemrelkind='c') -- Array of user-defined free-standing composites (not table composites) by default
    )))
ORDER BY CASE
       WHEN typtype IN ('b', 'e', 'p') THEN 0           -- First base types, enums, pseudo-types
       WHEN typtype = 'c' THEN 1                        -- Composites after (fields loaded later in 2nd pass)
       WHEN typtype = 'r' THEN 2                        -- Ranges after
       WHEN typtype = 'm' THEN 3                        -- Multiranges after
       WHEN typtype = 'd' AND elemtyptype <> 'a' THEN 4 -- Domains over non-arrays after
       WHEN typtype = 'a' THEN 5                        -- Arrays after
       WHEN typtype = 'd' AND elemtyptype = 'a' THEN 6  -- Domains over arrays last
END;

-- fields of composite types
SELECT typ.oid, att.attname, att.atttypid
FROM pg_type AS typ
JOIN pg_namespace AS ns ON (ns.oid = typ.typnamespace)
JOIN pg_class AS cls ON (cls.oid = typ.typrelid)
JOIN pg_attribute AS att ON (att.attrelid = typ.typrelid)
WHERE
  (typ.typtype = 'c' AND cls.relkind='c') AND
  attnum > 0 AND     -- Don't load system attributes
  NOT attisdropped
ORDER BY typ.oid, att.attnum;

-- values of enumerated types
SELECT typ.oid, enumlabel
FROM pg_enum
JOIN pg_type AS typ ON typ.oid = enumtypid
JOIN pg_namespace AS ns ON ns.oid = typ.typnamespace
ORDER BY oid, enumsortorder;

-- columns of a result
SELECT
    typ.oid AS typoid, nspname, relname, attname, attrelid, attnum, attnotnull,
    attidentity != '' AS isidentity,
    CASE WHEN typ.typtype = 'd' THEN typ.typtypmod ELSE atttypmod END AS typmod,
    CASE WHEN atthasdef THEN (SELECT pg_get_expr(adbin, cls.oid) FROM pg_attrdef WHERE adrelid = cls.oid AND adnum = attr.attnum) ELSE NULL END AS default,
    ((cls.relkind = ANY (ARRAY['r'::"char", 'p'::"char"]))
        OR ((cls.relkind = ANY (ARRAY['v'::"char", 'f'::"char"]))
        AND pg_column_is_updatable((cls.oid)::regclass, attr.attnum, false)))
        AND attr.attidentity NOT IN ('a')
        AS is_updatable,
    EXISTS (
        SELECT * FROM pg_index
        WHERE pg_index.indrelid = cls.oid AND
            pg_index.indisprimary AND
            attnum = ANY (indkey)
    ) AS isprimarykey,
    EXISTS (
        SELECT * FROM pg_index
        WHERE pg_index.indrelid = cls.oid AND
            pg_index.indisunique AND
            pg_index.indnkeyatts = 1 AND
            attnum = pg_index.indkey[0]
    ) AS isunique
FROM pg_attribute AS attr
JOIN pg_type AS typ ON attr.atttypid = typ.oid
JOIN pg_class AS cls ON cls.oid = attr.attrelid
JOIN pg_namespace AS ns ON ns.oid = cls.relnamespace
WHERE
    atttypid <> 0 AND
    relkind IN ('r', 'v', 'm', 'p') AND
    NOT attisdropped AND
    nspname NOT IN ('pg_catalog', 'information_schema') AND
    attnum > 0 AND
    ((attr.attrelid={'t'::regclass::oid} AND attr.attnum=1) OR (attr.attrelid={'t'::regclass::oid} AND attr.attnum=3) OR (attr.attrelid={'t'::regclass::oid} AND attr.attnum=5))
ORDER BY attnum

-- resets a connection that goes back to the pool
-- simple
DISCARD ALL
