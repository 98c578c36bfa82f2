import java.sql.*;
import java.util.*;
// pgJDBC's DatabaseMetaData over a table, a key and a view. Prints what it finds: host, port, user, password, database.
public class PgJdbcMetaData {
  static void show(String name, ResultSet r, String... cols) throws SQLException {
    List<String> lines = new ArrayList<>();
    while (r.next()) { StringBuilder b=new StringBuilder(); for (String c: cols) b.append(r.getString(c)).append(','); lines.add(b.toString()); }
    System.out.println(name+": "+lines);
  }
  interface Step { void run() throws Exception; }
  static void t(String name, Step s){ try { s.run(); } catch (Exception e) { System.out.println(name+" FAILED "+e.getMessage()); } }
  public static void main(String[] a) throws Exception {
    Connection c = DriverManager.getConnection("jdbc:postgresql://" + a[0] + ":" + a[1] + "/" + a[4] + "?user=" + a[2] + "&password=" + a[3]);
    for (String text : new String[] {
      "create table t (id int primary key, name text not null, price numeric(10,2) default 1.5, n int check (n >= 0), flag boolean default true, at timestamp, day date, moment timestamptz, raw bytea, f float8, g real, c char(3), v varchar(4), sm smallint, b bigint)",
      "create table s (t_id int, pos int, what text default 'nothing', primary key (t_id, pos))",
      "create view vw as select id, name, price from t",
      "comment on table t is 'a table'",
      "comment on column t.name is 'its name'"}) c.createStatement().execute(text);
    DatabaseMetaData m=c.getMetaData();
    t("schemas",()->show("schemas",m.getSchemas(null,"public"),"TABLE_SCHEM"));
    t("tables",()->show("tables",m.getTables(null,"public","%",new String[]{"TABLE","VIEW"}),"TABLE_SCHEM","TABLE_NAME","TABLE_TYPE","REMARKS"));
    t("columns",()->show("columns",m.getColumns(null,"public","t","%"),"COLUMN_NAME","DATA_TYPE","TYPE_NAME","COLUMN_SIZE","DECIMAL_DIGITS","NULLABLE","REMARKS","COLUMN_DEF","ORDINAL_POSITION","IS_AUTOINCREMENT"));
    t("columnsv",()->show("columnsv",m.getColumns(null,"public","vw",null),"COLUMN_NAME","DATA_TYPE","TYPE_NAME"));
    t("pk",()->show("pk",m.getPrimaryKeys(null,"public","s"),"TABLE_NAME","COLUMN_NAME","KEY_SEQ","PK_NAME"));
    t("index",()->show("index",m.getIndexInfo(null,"public","s",false,false),"TABLE_NAME","NON_UNIQUE","INDEX_NAME","TYPE","ORDINAL_POSITION","COLUMN_NAME","ASC_OR_DESC"));
    t("imported",()->show("imported",m.getImportedKeys(null,"public","s"),"PKTABLE_NAME"));
    t("exported",()->show("exported",m.getExportedKeys(null,"public","s"),"PKTABLE_NAME"));
    t("best",()->show("best",m.getBestRowIdentifier(null,"public","t",1,true),"COLUMN_NAME","DATA_TYPE","TYPE_NAME"));
    t("version",()->show("version",m.getVersionColumns(null,"public","t"),"COLUMN_NAME"));
    t("types",()->{ ResultSet r=m.getTypeInfo(); int n=0; Set<String> s=new TreeSet<>(); while(r.next()){s.add(r.getString(1));} System.out.println("types "+s.containsAll(List.of("int4","text","numeric","timestamptz","bool","bytea")));});
    t("tabletypes",()->show("tabletypes",m.getTableTypes(),"TABLE_TYPE"));
    t("functions",()->show("functions",m.getFunctions(null,"public","%"),"FUNCTION_NAME"));
    t("procedures",()->show("procedures",m.getProcedures(null,"public","%"),"PROCEDURE_NAME"));
    t("rsmeta",()->{ ResultSetMetaData r=c.createStatement().executeQuery("select id, price, v from t").getMetaData(); for(int i=1;i<=3;i++) System.out.println(r.getColumnTypeName(i));} );
  }
}
