"""SQLAlchemy's ORM, unmodified, with psycopg: models, sessions, locks, upserts, versions, reflection, and ALTER TABLE as Alembic makes it.

Usage: orm_app.py PATH_TO_ALLUVIA [--peer]

Each part is for itself: one that fails does not hold up the next. With `--peer` all runs at a PostgreSQL.
"""

import argparse
import random
import threading
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from uuid import UUID, uuid4

import sqlalchemy as sa
from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy.dialects.postgresql import JSONB, insert
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, aliased, joinedload, mapped_column, relationship, selectinload
from sqlalchemy.orm.exc import StaleDataError

from checks import Checks, one_line, target


class Base(DeclarativeBase):
    type_annotation_map = {dict: JSONB, datetime: sa.DateTime(timezone=True)}


stocked = sa.Table(
    "stocked", Base.metadata,
    sa.Column("shop_id", sa.ForeignKey("shop.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("item_id", sa.ForeignKey("item.id", ondelete="CASCADE"), primary_key=True),
)


class Customer(Base):
    __tablename__ = "customer"
    id: Mapped[int] = mapped_column(sa.BigInteger, sa.Identity(), primary_key=True)
    email: Mapped[str] = mapped_column(sa.String(120), unique=True)
    name: Mapped[str] = mapped_column(sa.String(80), index=True)
    token: Mapped[UUID] = mapped_column(default=uuid4)
    born: Mapped[date | None]
    made_at: Mapped[datetime] = mapped_column(server_default=sa.func.now())
    orders: Mapped[list["Order"]] = relationship(back_populates="customer", cascade="all, delete-orphan", order_by="Order.number")


class Order(Base):
    __tablename__ = "order"  # A word of SQL's.
    __table_args__ = (sa.UniqueConstraint("customer_id", "number", name="number_of_customer"), sa.CheckConstraint("total >= 0", name="total_not_below_zero"))
    id: Mapped[int] = mapped_column(primary_key=True)
    customer_id: Mapped[int] = mapped_column(sa.ForeignKey("customer.id"), index=True)
    number: Mapped[int]
    total: Mapped[Decimal] = mapped_column(sa.Numeric(10, 2), default=Decimal(0))
    state: Mapped[str] = mapped_column(sa.Enum("new", "paid", "sent", name="order_state", native_enum=False), default="new")
    details: Mapped[dict] = mapped_column(default=dict)
    version: Mapped[int] = mapped_column()
    customer: Mapped[Customer] = relationship(back_populates="orders")
    lines: Mapped[list["Line"]] = relationship(cascade="all, delete-orphan", passive_deletes=True)
    __mapper_args__ = {"version_id_col": version}


class Line(Base):
    __tablename__ = "line"
    order_id: Mapped[int] = mapped_column(sa.ForeignKey("order.id", ondelete="CASCADE"), primary_key=True)
    position: Mapped[int] = mapped_column(primary_key=True)
    item_id: Mapped[int] = mapped_column(sa.ForeignKey("item.id"))
    quantity: Mapped[int] = mapped_column(sa.SmallInteger)
    item: Mapped["Item"] = relationship()


class Item(Base):
    __tablename__ = "item"
    __table_args__ = (sa.Index("by_kind_and_price", "kind", "price"),)
    id: Mapped[int] = mapped_column(primary_key=True)
    code: Mapped[str] = mapped_column(sa.String(20), unique=True)
    kind: Mapped[str] = mapped_column(sa.Text)
    price: Mapped[Decimal] = mapped_column(sa.Numeric(8, 2))
    weight: Mapped[float | None]
    sold: Mapped[bool] = mapped_column(default=True, server_default=sa.true())
    shops: Mapped[list["Shop"]] = relationship(secondary=stocked, back_populates="items")


class Shop(Base):
    __tablename__ = "shop"
    id: Mapped[int] = mapped_column(primary_key=True)
    town: Mapped[str]
    parent_id: Mapped[int | None] = mapped_column(sa.ForeignKey("shop.id", ondelete="SET NULL"))
    items: Mapped[list[Item]] = relationship(secondary=stocked, back_populates="shops", order_by="Item.code")


class Job(Base):
    __tablename__ = "job"
    id: Mapped[int] = mapped_column(primary_key=True)
    state: Mapped[str] = mapped_column(default="waits")
    by: Mapped[int | None]


def made(engine, checks):
    Base.metadata.create_all(engine)
    # They are there: it looks, and makes none.
    Base.metadata.create_all(engine)
    names = sa.inspect(engine).get_table_names()
    checks.equal("create_all makes all tables", sorted(names), sorted(Base.metadata.tables))


def graph(engine, checks):
    """A graph of objects in one flush, in the order of foreign keys; what the server gives comes back."""
    with Session(engine) as session:
        items = [Item(code=f"item-{n}", kind="ab"[n % 2], price=Decimal(n) + Decimal("0.25"), weight=n / 3 if n % 3 else None) for n in range(8)]
        customers = [Customer(email=f"c{n}@example.org", name=f"Name {n % 3}", born=date(1980, 1, n + 1) if n else None) for n in range(5)]
        for n, customer in enumerate(customers):
            customer.orders = [Order(number=m, total=Decimal(m * 10), details={"n": [n, None, {"x": "ü'"}]}, lines=[
                Line(position=p, item=items[(n + m + p) % 8], quantity=p + 1) for p in range(3)]) for m in range(n)]
        session.add_all([*items, *customers])
        session.add_all([Shop(town="Bern", items=items[:3]), Shop(town="Köln", items=items[2:5])])
        session.flush()
        assert all(customer.id for customer in customers)
        assert abs(customers[0].made_at - datetime.now(UTC)) < timedelta(minutes=5)
        session.commit()
    with Session(engine) as session:
        found = session.scalars(sa.select(Customer).options(selectinload(Customer.orders).selectinload(Order.lines).joinedload(Line.item)).order_by(Customer.email)).all()
        told = [(customer.email, [(order.number, order.total, order.details["n"][0], order.version, sorted((line.position, line.item.code) for line in order.lines)) for order in customer.orders]) for customer in found]
        wanted = [(f"c{n}@example.org", [(m, Decimal(m * 10), n, 1, [(p, f"item-{(n + m + p) % 8}") for p in range(3)]) for m in range(n)]) for n in range(5)]
        checks.equal("a graph is written and read", told, wanted)
        shops = session.scalars(sa.select(Shop).options(joinedload(Shop.items)).order_by(Shop.town)).unique().all()
        checks.equal("many to many", [(shop.town, [item.code for item in shop.items]) for shop in shops], [("Bern", ["item-0", "item-1", "item-2"]), ("Köln", ["item-2", "item-3", "item-4"])])
        checks.equal("a UUID comes back", isinstance(found[0].token, UUID), True)


def queries(engine, checks):
    def ask(what, found, expected):
        """One query, after which the next is asked whatever comes."""
        with Session(engine) as session:
            try:
                checks.equal(what, found(session), expected)
            except DBAPIError as error:
                checks.say(what, one_line(error))

    total = sa.func.sum(Order.total)
    grouped = sa.select(Customer.email, sa.func.count(Order.id), total).outerjoin(Customer.orders).group_by(Customer.id).having(sa.func.count(Order.id) >= 0).order_by(Customer.email)
    ask("outer join, GROUP BY of a key, HAVING", lambda session: [tuple(row) for row in session.execute(grouped)], [(f"c{n}@example.org", n, Decimal(sum(range(n)) * 10) if n else None) for n in range(5)])
    latest = sa.select(sa.func.max(Order.number)).where(Order.customer_id == Customer.id).correlate(Customer).scalar_subquery()
    ask("a subquery of the row", lambda session: session.scalars(sa.select(latest).select_from(Customer).order_by(Customer.email)).all(), [None, 0, 1, 2, 3])
    ranked = sa.select(Item.code, sa.func.row_number().over(partition_by=Item.kind, order_by=Item.price.desc()).label("place")).subquery()
    ask("a window", lambda session: session.scalars(sa.select(ranked.c.code).where(ranked.c.place == 1).order_by(ranked.c.code)).all(), ["item-6", "item-7"])
    other = aliased(Customer)
    pairs = sa.select(sa.func.count()).select_from(Customer).join(other, sa.and_(Customer.name == other.name, Customer.id < other.id))
    ask("a join with itself", lambda session: session.execute(pairs).scalar_one(), 2)
    ask("EXISTS, any()", lambda session: session.scalar(sa.select(sa.func.count(Customer.id)).where(~Customer.orders.any())), 1)
    ask("IN of many", lambda session: session.scalar(sa.select(sa.func.count(Item.id)).where(Item.code.in_([f"item-{n}" for n in range(0, 400, 2)]))), 4)
    ask("JSON by path", lambda session: session.scalar(sa.select(sa.func.count(Order.id)).where(Order.details["n"][0].as_integer() == 4)), 4)
    tree = sa.select(sa.literal(1).label("n")).cte(recursive=True)
    tree = tree.union_all(sa.select(tree.c.n + 1).where(tree.c.n < 5))
    ask("a recursive CTE", lambda session: session.scalar(sa.select(sa.func.sum(tree.c.n))), 15)
    ask("union, LIMIT, OFFSET", lambda session: session.scalars(sa.union(sa.select(Item.code), sa.select(Customer.email)).order_by(sa.text("1")).limit(2).offset(1)).all(), ["c1@example.org", "c2@example.org"])
    ask("get by key", lambda session: session.get(Line, (session.scalar(sa.select(sa.func.min(Line.order_id))), 1)).quantity, 2)
    ask("yield_per, a cursor of the server", lambda session: sum(1 for _ in session.scalars(sa.select(Line).execution_options(yield_per=7))), 30)


def changes(engine, checks):
    with Session(engine) as session, session.begin():
        customer = session.scalars(sa.select(Customer).where(Customer.email == "c4@example.org")).one()
        customer.orders[0].lines[0].quantity = 30
        del customer.orders[1]
        customer.orders.append(Order(number=9, total=Decimal("1.50")))
        customer.name = "Other"
    with Session(engine) as session:
        customer = session.scalars(sa.select(Customer).where(Customer.email == "c4@example.org")).one()
        checks.equal("cascades: changed, taken away, added", [(order.number, order.version, sum(line.quantity for line in order.lines)) for order in customer.orders], [(0, 1, 35), (2, 1, 6), (3, 1, 6), (9, 1, 0)])
        checks.equal("lines went with their order", session.scalar(sa.select(sa.func.count()).select_from(Line)), 27)
        customer.name = "Nobody sees"
        session.flush()
        session.rollback()
        checks.equal("rollback", customer.name, "Other")
        with session.begin_nested():
            customer.name = "Kept"
        try:
            with session.begin_nested():
                session.add(Customer(email="c0@example.org", name="twice"))
                session.flush()
        except IntegrityError as error:
            checks.equal("a duplicate", error.orig.sqlstate, "23505")
        else:
            checks.say("a duplicate", "is let through")
        session.commit()
        checks.equal("the savepoint before stays", session.scalar(sa.select(Customer.name).where(Customer.email == "c4@example.org")), "Kept")
        done = session.execute(sa.update(Item).where(Item.kind == "a").values(price=Item.price * 2).returning(Item.code, Item.price)).all()
        checks.equal("UPDATE ... RETURNING", sorted(tuple(row) for row in done), [(f"item-{n}", (Decimal(n) + Decimal("0.25")) * 2) for n in (0, 2, 4, 6)])
        checks.equal("DELETE by condition", session.execute(sa.delete(Shop).where(Shop.town == "Nowhere")).rowcount, 0)
        session.rollback()


def refused(engine, checks):
    def one(statement):
        with engine.begin() as connection:
            connection.execute(statement)

    wrong = [
        ("a unique pair that is there", "23505", lambda c: sa.insert(Order).values(customer_id=c, number=0, total=1, state="new", details={}, version=1)),
        ("a parent that is not there", "23503", lambda c: sa.insert(Order).values(customer_id=99999, number=0, total=1, state="new", details={}, version=1)),
        ("a parent that has children", "23503", lambda c: sa.delete(Customer).where(Customer.id == c)),
        ("a key of a parent that changes", "23503", lambda c: sa.update(Customer).where(Customer.id == c).values(id=77777)),
        ("a CHECK", "23514", lambda c: sa.insert(Order).values(customer_id=c, number=50, total=-1, state="new", details={}, version=1)),
        ("NULL", "23502", lambda c: sa.update(Customer).where(Customer.id == c).values(name=None)),
        ("a text that is too long", "22001", lambda c: sa.update(Customer).where(Customer.id == c).values(name="x" * 81)),
        ("a number that is too large", "22003", lambda c: sa.insert(Order).values(customer_id=c, number=50, total=Decimal("123456789.00"), state="new", details={}, version=1)),
    ]
    with engine.connect() as connection:
        customer = connection.scalar(sa.select(sa.func.max(Order.customer_id)))
        before = connection.execute(sa.select(sa.func.count(), sa.func.sum(Order.number)).select_from(Order)).one()
    for what, state, statement in wrong:
        try:
            one(statement(customer))
        except DBAPIError as error:
            checks.equal(f"{what} is refused", error.orig.sqlstate, state)
        else:
            checks.say(f"{what} is refused", f"is let through, and {state} is expected")
    with engine.connect() as connection:
        checks.equal("what is refused changes nothing", connection.execute(sa.select(sa.func.count(), sa.func.sum(Order.number)).select_from(Order)).one(), before)
    with Session(engine) as session, session.begin():
        shops = [Shop(town="Mother"), Shop(town="Daughter")]
        session.add_all(shops)
        session.flush()
        shops[1].parent_id = shops[0].id
        session.flush()
        session.execute(sa.delete(Shop).where(Shop.id == shops[0].id))
        session.expire_all()
        checks.equal("ON DELETE SET NULL", shops[1].parent_id, None)
        session.execute(sa.delete(Shop).where(Shop.town == "Bern"))
        checks.equal("ON DELETE CASCADE", session.scalar(sa.select(sa.func.count()).select_from(stocked)), 3)


def stale(engine, checks):
    with Session(engine) as first, Session(engine) as second:
        own = first.scalars(sa.select(Order).order_by(Order.id).limit(1)).one()
        others = second.get(Order, own.id)
        own.total += 1
        first.commit()
        others.total += 5
        checks.raises("version_id_col: who comes second is refused", StaleDataError, second.commit)
        second.rollback()
        checks.equal("and the version is that of the first", (second.get(Order, own.id).version, own.version), (2, 2))


def upserts(engine, checks):
    with Session(engine) as session, session.begin():
        statement = insert(Item).values([{"code": f"item-{n}", "kind": "c", "price": n} for n in range(6, 10)])
        statement = statement.on_conflict_do_update(index_elements=[Item.code], set_={"kind": statement.excluded.kind, "price": statement.excluded.price + Item.price}, where=Item.price < 7).returning(Item.code, Item.price)
        found = sorted(tuple(row) for row in session.execute(statement))
        checks.equal("upsert on a unique column, with WHERE and RETURNING", found, [("item-6", Decimal("12.25")), ("item-8", Decimal(8)), ("item-9", Decimal(9))])
        statement = insert(Item).values([{"code": f"item-{n}", "kind": "d", "price": n} for n in range(9, 12)]).on_conflict_do_nothing(constraint="item_code_key")
        session.execute(statement)
        checks.equal("DO NOTHING on a constraint's name", session.scalar(sa.select(sa.func.count()).where(Item.kind == "d")), 2)
        session.execute(insert(Item).values(code="item-0", kind="d", price=1).on_conflict_do_nothing())
        checks.equal("DO NOTHING on any", session.scalar(sa.select(sa.func.count()).select_from(Item)), 12)
        line = session.scalars(sa.select(Line).limit(1)).one()
        statement = insert(Line).values(order_id=line.order_id, position=line.position, item_id=line.item_id, quantity=5)
        session.execute(statement.on_conflict_do_update(index_elements=["order_id", "position"], set_={"quantity": Line.quantity + statement.excluded.quantity}))
        before = line.quantity
        session.refresh(line)
        checks.equal("upsert on a key of two", line.quantity, before + 5)


def upserts_at_once(engine, checks):
    """Of four threads, each in its own order: no row comes twice, no count is lost, and nobody fails for the others but by 40P01."""
    wrong = []

    def count(seed):
        rng = random.Random(seed)
        for _ in range(10):
            codes = rng.sample(range(20), 5)
            while True:
                try:
                    with Session(engine) as session, session.begin():
                        statement = insert(Item).values([{"code": f"at-once-{code}", "kind": "n", "price": 1} for code in codes])
                        session.execute(statement.on_conflict_do_update(index_elements=[Item.code], set_={"price": Item.price + 1}))
                    break
                except DBAPIError as error:
                    if error.orig.sqlstate != "40P01":
                        wrong.append(one_line(error))
                        return

    threads = [threading.Thread(target=count, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    with Session(engine) as session:
        found = session.execute(sa.select(sa.func.sum(Item.price), sa.func.count(), sa.func.count(sa.distinct(Item.code))).where(Item.kind == "n")).one()
        checks.equal("upserts of four threads: none is lost", (found[0], found[1] == found[2], wrong), (Decimal(200), True, []))


def bulk(engine, checks):
    with Session(engine) as session, session.begin():
        found = session.scalars(sa.insert(Job).returning(Job.id, sort_by_parameter_order=True), [{"state": f"s{n}"} for n in range(2500)]).all()
        checks.equal("INSERT of many rows, keys in their order", (len(found), session.get(Job, found[1234]).state), (2500, "s1234"))
        session.execute(sa.update(Job), [{"id": key, "state": "changed"} for key in found[:100]])
        checks.equal("UPDATE of many by key", session.scalar(sa.select(sa.func.count()).where(Job.state == "changed")), 100)
        session.execute(sa.insert(Job), [{"state": "many"} for _ in range(1000)])
        checks.equal("executemany", session.scalar(sa.select(sa.func.count()).where(Job.state == "many")), 1000)
        session.execute(sa.delete(Job))
    with engine.begin() as connection:
        with connection.connection.cursor().copy("COPY job (state) FROM STDIN") as copy:
            for n in range(60):
                copy.write_row(("waits",))


def jobs(engine, checks):
    """A queue: each takes the first that nobody holds."""
    taken, wrong = {}, []

    def work(worker):
        rng = random.Random(worker)
        try:
            while True:
                with Session(engine) as session, session.begin():
                    job = session.scalars(sa.select(Job).where(Job.state == "waits").order_by(Job.id).limit(1).with_for_update(skip_locked=True)).first()
                    if job is None:
                        return
                    key, job.state, job.by = job.id, "done", worker
                    session.flush()
                    if rng.random() < 0.2:
                        session.rollback()
                        continue
                taken.setdefault(key, []).append(worker)
        except Exception as error:
            wrong.append(f"{type(error).__name__}: {str(error)[:300]}")

    workers = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
    checks.equal("a queue with SKIP LOCKED: nobody fails", wrong, [])
    checks.equal("each job is taken once", (len(taken), {len(by) for by in taken.values()}), (60, {1}))
    with Session(engine) as session:
        checks.equal("and says by whom", {job.id: [job.by] for job in session.scalars(sa.select(Job))}, taken)
    with Session(engine) as first, Session(engine) as second:
        key = first.scalars(sa.select(sa.func.min(Job.id))).one()
        first.get(Job, key, with_for_update=True)

        def want():
            second.get(Job, key, with_for_update={"nowait": True})
        checks.raises("NOWAIT", OperationalError, want)
        for name, lock in (("FOR SHARE", {"read": True}), ("FOR NO KEY UPDATE", {"key_share": True}), ("FOR KEY SHARE", {"read": True, "key_share": True})):
            with checks.part(name):
                first.scalars(sa.select(Job).where(Job.id == key).with_for_update(**lock)).one()
            if not first.is_active:
                first.rollback()


def reflected(engine, checks):
    metadata = sa.MetaData()
    metadata.reflect(engine)
    checks.equal("all tables", sorted(metadata.tables), sorted(Base.metadata.tables))
    inspector = sa.inspect(engine)
    for name, table in sorted(Base.metadata.tables.items()):
        with checks.part(f"{name} is reflected"):
            found = metadata.tables[name]
            checks.equal(f"{name}: columns", [(one.name, one.nullable) for one in found.columns], [(one.name, one.nullable) for one in table.columns])
            checks.equal(f"{name}: primary key", [one.name for one in found.primary_key], [one.name for one in table.primary_key])
            checks.equal(f"{name}: foreign keys", sorted((one.parent.name, one.target_fullname, one.ondelete) for one in found.foreign_keys), sorted((one.parent.name, one.target_fullname, one.ondelete) for one in table.foreign_keys))
            unique = sorted(sorted(one.columns.keys()) for one in table.constraints if isinstance(one, sa.UniqueConstraint))
            checks.equal(f"{name}: unique constraints", sorted(sorted(one["column_names"]) for one in inspector.get_unique_constraints(name)), unique)
            indexes = sorted((one.name, [column.name for column in one.columns]) for one in table.indexes)
            checks.equal(f"{name}: indexes", sorted((one["name"], one["column_names"]) for one in inspector.get_indexes(name) if not one.get("duplicates_constraint")), indexes)
    with checks.part("types"):
        types = {one.name: str(one.type) for one in metadata.tables["customer"].columns} | {one.name: str(one.type) for one in metadata.tables["order"].columns if one.name in ("total", "details")}
        wanted = {"id": "BIGINT", "email": "VARCHAR(120)", "name": "VARCHAR(80)", "token": "UUID", "born": "DATE", "made_at": "TIMESTAMP", "total": "NUMERIC(10, 2)", "details": "JSONB"}
        checks.equal("types of columns", types, wanted)
        checks.equal("an identity", bool(metadata.tables["customer"].c.id.identity), True)
        checks.equal("checks", [one["name"] for one in inspector.get_check_constraints("order")], ["total_not_below_zero"])


def altered(engine, checks):
    """What Alembic writes for a migration, each in a transaction of its own, so that one that is refused hides no other."""
    steps = [
        ("add_column, nullable", lambda op: op.add_column("customer", sa.Column("phone", sa.String(30)))),
        ("add_column with a default, NOT NULL", lambda op: op.add_column("customer", sa.Column("points", sa.Integer, nullable=False, server_default="7"))),
        ("drop the default", lambda op: op.alter_column("customer", "points", server_default=None)),
        ("set a default", lambda op: op.alter_column("customer", "points", server_default="8")),
        ("DROP NOT NULL", lambda op: op.alter_column("customer", "points", nullable=True)),
        ("SET NOT NULL", lambda op: op.alter_column("customer", "points", nullable=False)),
        ("a wider type", lambda op: op.alter_column("customer", "points", type_=sa.BigInteger)),
        ("a longer VARCHAR", lambda op: op.alter_column("customer", "name", type_=sa.String(200))),
        ("a type by USING", lambda op: op.alter_column("customer", "phone", type_=sa.Text, postgresql_using="phone || ''")),
        ("a column's name", lambda op: op.alter_column("customer", "phone", new_column_name="telephone")),
        ("create_index", lambda op: op.create_index("by_telephone", "customer", ["telephone"])),
        ("create_unique_constraint", lambda op: op.create_unique_constraint("telephone_once", "customer", ["telephone"])),
        ("drop_constraint", lambda op: op.drop_constraint("telephone_once", "customer", type_="unique")),
        ("create_check_constraint", lambda op: op.create_check_constraint("points_positive", "customer", "points > 0")),
        ("drop_constraint of a check", lambda op: op.drop_constraint("points_positive", "customer", type_="check")),
        ("drop_index", lambda op: op.drop_index("by_telephone", table_name="customer")),
        ("create_table with a foreign key", lambda op: op.create_table("note", sa.Column("id", sa.Integer, primary_key=True), sa.Column("customer_id", sa.BigInteger), sa.Column("text", sa.Text))),
        ("create_foreign_key", lambda op: op.create_foreign_key("note_of", "note", "customer", ["customer_id"], ["id"], ondelete="CASCADE")),
        ("drop_constraint of a foreign key", lambda op: op.drop_constraint("note_of", "note", type_="foreignkey")),
        ("a table's name", lambda op: op.rename_table("note", "remark")),
        ("drop_column", lambda op: op.drop_column("customer", "telephone")),
        ("drop_table", lambda op: op.drop_table("remark")),
    ]
    for what, step in steps:
        with checks.part(f"Alembic: {what}"), engine.begin() as connection:
            step(Operations(MigrationContext.configure(connection)))
    with checks.part("Alembic: the rows that were there have the default"), engine.connect() as connection:
        assert set(connection.scalars(sa.text("SELECT points FROM customer"))) == {7}
    with checks.part("Alembic: several steps in one transaction, which is rolled back"):
        with engine.connect() as connection, connection.begin() as transaction:
            op = Operations(MigrationContext.configure(connection))
            op.create_table("gone", sa.Column("id", sa.Integer, primary_key=True))
            op.add_column("item", sa.Column("gone", sa.Integer))
            transaction.rollback()
        assert not sa.inspect(engine).has_table("gone")
        assert "gone" not in {one["name"] for one in sa.inspect(engine).get_columns("item")}


def dropped(engine, checks):
    Base.metadata.drop_all(engine)
    checks.equal("drop_all takes all", sa.inspect(engine).get_table_names(), [])


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("Usage: ")[1].split("\n")[0])
    parser.add_argument("program")
    parser.add_argument("--peer", action="store_true")
    options = parser.parse_args()
    checks = Checks()
    with target(options.program, options.peer) as (port, database):
        engine = sa.create_engine(f"postgresql+psycopg://alluvia@127.0.0.1:{port}/{database}", pool_size=8)
        for part in (made, graph, queries, changes, refused, stale, upserts, upserts_at_once, bulk, jobs, reflected, altered, dropped):
            with checks.part(part.__name__):
                part(engine, checks)
        engine.dispose()
    checks.end()


if __name__ == "__main__":
    main()
