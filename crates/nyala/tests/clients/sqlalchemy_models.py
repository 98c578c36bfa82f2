# Models of SQLAlchemy whose keys number themselves: as serial, as identities, by a sequence. Prints what becomes of their objects:
# host, port, user, password, database.
import sys

from sqlalchemy import BigInteger, Identity, Integer, MetaData, Sequence, String, create_engine, func, inspect, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

host, port, user, password, database = sys.argv[1:]
engine = create_engine(f"postgresql+psycopg://{user}:{password}@{host}:{port}/{database}")


class Base(DeclarativeBase):
    pass


class Person(Base):
    __tablename__ = "person"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(20))
    age: Mapped[int | None]


class Item(Base):
    __tablename__ = "item"
    id: Mapped[int] = mapped_column(BigInteger, Identity(always=True, start=10), primary_key=True)
    name: Mapped[str] = mapped_column(String(20))


class Visit(Base):
    __tablename__ = "visit"
    id: Mapped[int] = mapped_column(Integer, Sequence("visits", start=7, increment=2), primary_key=True)
    place: Mapped[str] = mapped_column(String(20))


Base.metadata.create_all(engine)
Base.metadata.create_all(engine)
with Session(engine) as session:
    people = [Person(name=f"p{number}", age=number) for number in range(5)]
    session.add_all(people)
    session.add_all([Item(name=str(number)) for number in range(3)])
    session.add_all([Visit(place=str(number)) for number in range(3)])
    session.commit()
    print("people", [person.id for person in people])
    print("items", session.scalars(select(Item.id).order_by(Item.id)).all())
    print("visits", session.scalars(select(Visit.id).order_by(Visit.id)).all())
    person = session.get(Person, 3)
    person.name = "changed"
    session.delete(session.get(Person, 4))
    session.commit()
    session.add(Person(name="lost"))
    session.flush()
    session.rollback()
    session.add_all([Person(name=f"n{number}") for number in range(2000)])
    session.commit()
    print("counted", session.execute(select(func.count(), func.min(Person.id), func.max(Person.id))).one())
    print("changed", session.scalars(select(Person.id).where(Person.name == "changed")).all())
found = inspect(engine)
for table in ["person", "item", "visit"]:
    columns = found.get_columns(table)
    print(table, [(own["name"], str(own["type"]), own["nullable"], own["default"], own["autoincrement"], own.get("identity")) for own in columns])
print("sequences", sorted(found.get_sequence_names()))
reflected = MetaData()
reflected.reflect(engine, only=["person", "item", "visit"])
print("reflected", {name: table.primary_key.columns.keys() for name, table in sorted(reflected.tables.items())})
Base.metadata.drop_all(engine)
print("left", inspect(engine).get_sequence_names())
