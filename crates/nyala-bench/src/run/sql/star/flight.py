"""Reads a query over Flight SQL, for `nyala bench sql star`. Prints seconds, rows and bytes of the columns."""

import sys
import time

import adbc_driver_flightsql.dbapi as adbc
from adbc_driver_flightsql import DatabaseOptions

address, database, query = sys.argv[1:]
options = {DatabaseOptions.RPC_CALL_HEADER_PREFIX.value + "database": database}
with adbc.connect("grpc://" + address, db_kwargs=options, autocommit=True) as connection:
    with connection.cursor() as cursor:
        begun = time.perf_counter()
        cursor.execute(query)
        table = cursor.fetch_arrow_table()
        print(time.perf_counter() - begun, table.num_rows, table.nbytes)
