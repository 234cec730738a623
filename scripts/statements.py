"""Random tables and random SELECTs that PostgreSQL, DuckDB and we take alike, as trees that can be made smaller.

- A statement is a tree of parts; `render` writes it, for us and PostgreSQL ("ours") or for DuckDB ("peer"), which differ in a few words.
- What is written has one right answer: LIMIT stands behind an order of all columns, windows are ordered by keys where it matters, numbers
  are multiples of 0.25, so that sums of doubles are exact, and nothing divides by zero.
- `smaller` gives trees with less in them. Some of them mean nothing: both sides refuse these.
"""

import datetime

NUMBERS = ("int", "dec", "dbl")
FAMILIES = {
    "SMALLINT": "int", "INT": "int", "BIGINT": "int", "DECIMAL(10, 2)": "dec", "DOUBLE PRECISION": "dbl", "TEXT": "txt",
    "DATE": "dat", "TIMESTAMP": "ts", "BOOLEAN": "bool",
}
TEXTS = ["", "a", "b", "ab", "abc", "B", "ba", "a b", "ä", "it's", "%", "a_c"]
PATTERNS = ["%", "a%", "%b", "%b%", "_", "a_", "ab", "", "A%", "%'%", "__%"]


class Node:
    """A part of a statement: texts, nodes, and pairs (ours, peer) of texts, one after another.

    Nodes of one kind may stand for one another. A list may lose items until `least` are left; an optional node may be gone.
    """

    def __init__(self, kind, *parts, sep=None, least=0, name=None):
        self.kind, self.parts, self.sep, self.least, self.name = kind, parts, sep, least, name

    def with_parts(self, parts):
        return Node(self.kind, *parts, sep=self.sep, least=self.least, name=self.name)

    def count(self):
        return 1 + sum(part.count() for part in self.parts if isinstance(part, Node))


class Order:
    """ORDER BY of all columns of the query it stands in, in directions that belong to the columns' names."""

    def __init__(self, directions):
        self.directions = directions


def render(part, dialect):
    if isinstance(part, str):
        return part
    if isinstance(part, tuple):
        return part[0 if dialect == "ours" else 1]
    texts = []
    for inner in part.parts:
        if isinstance(inner, Order):
            items = next(one for one in part.parts if isinstance(one, Node) and one.kind == "items")
            texts.append("ORDER BY " + ", ".join(f"{item.name} {inner.directions[item.name]}" for item in items.parts))
        else:
            texts.append(render(inner, dialect))
    return (part.sep or "").join(texts)


def smaller(node):
    """Smaller trees, those that lose most first where that is cheap to know."""
    simplest = {"bool": "TRUE", "int": "1", "txt": "'a'", "dbl": "CAST(1 AS DOUBLE PRECISION)"}
    if node.kind == "optional" and node.parts:
        yield node.with_parts(())
    if node.sep is not None and len(node.parts) > node.least:
        for at in range(len(node.parts)):
            yield node.with_parts(node.parts[:at] + node.parts[at + 1:])
    if node.kind in NUMBERS or node.kind in ("txt", "dat", "ts", "bool", "query", "from"):
        yield from sorted(below(node, node.kind), key=Node.count)
        if node.kind in simplest and node.parts != (simplest[node.kind],):
            yield Node(node.kind, simplest[node.kind])
    for at, part in enumerate(node.parts):
        if isinstance(part, Node):
            for less in smaller(part):
                yield node.with_parts(node.parts[:at] + (less,) + node.parts[at + 1:])


def below(node, kind):
    for part in node.parts:
        if isinstance(part, Node):
            if part.kind == kind:
                yield part
            yield from below(part, kind)


def literal(value, family):
    if value is None:
        return "NULL"
    if family == "bool":
        return "TRUE" if value else "FALSE"
    if family in ("dat", "ts"):
        return f"{'DATE' if family == 'dat' else 'TIMESTAMP'} '{value}'"
    if family == "txt":
        return "'" + value.replace("'", "''") + "'"
    return str(value)


class Table:
    """Columns and rows; `id` is a key."""

    def __init__(self, rng, name):
        self.name = name
        types = rng.choices(list(FAMILIES), k=rng.randint(2, 7))
        self.columns = [("id", "INT"), ("k", "INT"), ("s", "TEXT")] + [(f"c{at}", type_) for at, type_ in enumerate(types)]
        count = rng.choice([0, 1, 3, 10, 10, 30, 30, 30, 100, 100] * 3 + [400, 3000])
        nulls = {column: rng.choice([0, 0.1, 0.3, 0.6, 1] if column != "k" else [0, 0.1, 0.3]) for column, _ in self.columns}
        distinct = {column: rng.choice([1, 3, 8, 40]) for column, _ in self.columns}
        is_wide = rng.random() < 0.1
        keys = rng.sample(range(1, 2 * count + 2), count)
        self.rows = []
        for key in keys:
            row = [key]
            for column, type_ in self.columns[1:]:
                is_null = rng.random() < nulls[column]
                row.append(None if is_null else value(rng, type_, rng.randrange(distinct[column]), is_wide))
            self.rows.append(row)
        self.options = self.declared(rng)

    def declared(self, rng):
        """Dimensions and measures, for our tables."""
        if rng.random() < 0.3:
            return ""
        dimensions, free = [], self.columns[1:]
        rng.shuffle(free := list(free))
        for _ in range(rng.randint(1, 3)):
            if not free:
                break
            column, type_ = free.pop()
            family = FAMILIES[type_]
            if family in ("dat", "ts") and rng.random() < 0.7:
                dimensions.append(f"{column}({column}: year, month, day)")
            elif family in NUMBERS and rng.random() < 0.4:
                dimensions.append(f"{column}({column}: {rng.choice(['linear', 'linear -2..6', 'quantiles'])})")
            elif family == "int" and rng.random() < 0.3:
                dimensions.append(f"{column}({column}: hash)")
            elif free and rng.random() < 0.4:
                dimensions.append(f"{column}({column}, {free.pop()[0]})")
            else:
                dimensions.append(column)
        measures = [column for column, type_ in self.columns if FAMILIES[type_] in NUMBERS and rng.random() < 0.7]
        options = f"dimensions = '{'; '.join(dimensions)}'"
        return f" WITH ({options}" + (f", measures = '{', '.join(measures)}')" if measures else ")")

    def create(self, dialect):
        columns = ", ".join(f"{column} {type_}" for column, type_ in self.columns)
        return f"CREATE TABLE {self.name} ({columns})" + (self.options if dialect == "ours" else "")

    def insert(self, rows):
        families = [FAMILIES[type_] for _, type_ in self.columns]
        values = ", ".join("(" + ", ".join(map(literal, row, families)) + ")" for row in rows)
        return f"INSERT INTO {self.name} VALUES {values}"


def value(rng, type_, at, is_wide):
    family = FAMILIES[type_]
    if family == "int":
        widest = {"SMALLINT": 2**15, "INT": 2**31, "BIGINT": 2**62}[type_]
        return rng.choice([widest - 1, -widest]) if is_wide and rng.random() < 0.1 else at - 2
    if family in ("dec", "dbl"):
        return (at - 2) / 4
    if family == "txt":
        return TEXTS[at % len(TEXTS)]
    if family == "dat":
        return datetime.date(2023, 12, 29) + datetime.timedelta(days=at * 11)
    if family == "ts":
        return datetime.datetime(2023, 12, 30, 22, 30) + datetime.timedelta(minutes=at * 437)
    return at % 2 == 0


class Writer:
    """Writes SELECTs over some tables."""

    def __init__(self, rng, tables):
        self.rng, self.tables, self.names, self.ctes = rng, tables, 0, []

    def name(self, letter):
        self.names += 1
        return f"{letter}{self.names}"

    def chance(self, share):
        return self.rng.random() < share

    def called(self, table, alias):
        """What a table is called, and how it stands in FROM: a few by their own names, which hide those around."""
        return (table.name, table.name) if self.chance(0.1) else (alias, f"{table.name} {alias}")

    # Expressions. A scope is a list of (text, family).

    def column(self, family, scope):
        found = [text for text, of in scope if of == family]
        return Node(family, self.rng.choice(found)) if found else self.constant(family)

    def constant(self, family):
        rng = self.rng
        if self.chance(0.04):
            names = {family: name for name, family in FAMILIES.items()}
            return Node(family, f"CAST(NULL AS {names[family]})")
        type_ = {"int": "INT", "dec": "DECIMAL(10, 2)", "dbl": "DOUBLE PRECISION", "txt": "TEXT", "dat": "DATE", "ts": "TIMESTAMP", "bool": "BOOLEAN"}[family]
        text = literal(value(rng, type_, rng.randrange(8), False), family)
        if family in ("dec", "dbl"):
            text = f"CAST({text} AS {type_})"
        return Node(family, f"({text})" if text.startswith("-") else text)

    def family(self, scope, among=None):
        families = [of for _, of in scope if among is None or of in among]
        return self.rng.choice(families or list(among or ["int"]))

    def expr(self, family, scope, depth=2, subqueries=True):
        """`scope` may be what is grouped by, or the columns of what is read."""
        rng = self.rng
        if depth <= 0 or self.chance(0.55):
            return self.column(family, scope) if self.chance(0.85) else self.constant(family)
        inner = lambda of=family: self.expr(of, scope, depth - 1, subqueries)
        common = ["case", "coalesce", "nullif", "own", "own", "own"] + (["scalar"] if subqueries else [])
        choice = rng.choice(common)
        if choice == "case":
            test = self.boolean(scope, depth - 1, subqueries)
            otherwise = Node("optional", " ELSE ", inner()) if self.chance(0.7) else ""
            if self.chance(0.25):
                of = self.family(scope)
                return Node(family, "CASE ", inner(of), " WHEN ", inner(of), " THEN ", inner(), otherwise, " END")
            return Node(family, "CASE WHEN ", test, " THEN ", inner(), otherwise, " END")
        if choice == "coalesce":
            return Node(family, rng.choice(["COALESCE", "COALESCE", "greatest", "least"]) + "(", inner(), ", ", inner(), ")")
        if choice == "nullif":
            return Node(family, "NULLIF(", inner(), ", ", inner(), ")")
        if choice == "scalar":
            return self.scalar(family, scope)
        return self.own(family, scope, depth, subqueries)

    def own(self, family, scope, depth, subqueries):
        rng, inner = self.rng, lambda of=family: self.expr(of, scope, depth - 1, subqueries)
        if family == "bool":
            return self.boolean(scope, depth, subqueries)
        if family == "int":
            return rng.choice([
                lambda: Node("int", "(", inner(), rng.choice([" + ", " - ", " * "]), inner(), ")"),
                lambda: Node("int", "(", inner(), " % NULLIF(", inner(), ", 0))"),
                lambda: Node("int", "(", inner(), (" / ", " // "), "NULLIF(", inner(), ", 0))"),
                lambda: Node("int", "abs(", inner(), ")"),
                lambda: Node("int", "(- ", inner(), ")"),
                lambda: Node("int", "length(", inner("txt"), ")"),
                lambda: Node("int", "CAST(", inner("bool"), " AS INT)"),
                lambda: Node("int", "CAST(EXTRACT(" + rng.choice(["year", "month", "day", "dow", "quarter"]) + " FROM ", inner(rng.choice(["dat", "ts"])), ") AS INT)"),
            ])()
        if family in ("dec", "dbl"):
            type_ = "DECIMAL(12, 2)" if family == "dec" else "DOUBLE PRECISION"
            if family == "dbl" and self.chance(0.1):
                # Half to even, which DuckDB has under another name.
                return Node("dbl", ("round(", "round_even("), inner(), (")", ", 0)"))
            return rng.choice([
                lambda: Node(family, "(", inner(), rng.choice([" + ", " - "]), inner(), ")"),
                lambda: Node(family, "abs(", inner(), ")"),
                lambda: Node(family, "(- ", inner(), ")"),
                lambda: Node(family, "CAST(", inner("int"), f" AS {type_})"),
                lambda: Node(family, "(", inner(), " * ", inner("int"), ")"),
            ])()
        if family == "txt":
            return rng.choice([
                lambda: Node("txt", "(", inner(), " || ", inner(), ")"),
                lambda: Node("txt", rng.choice(["upper", "lower", "trim", "concat"]) + "(", inner(), ")"),
                lambda: Node("txt", "substr(", inner(), f", {rng.randint(1, 3)}, {rng.randint(0, 3)})"),
                lambda: Node("txt", "replace(", inner(), ", 'a', 'xx')"),
                lambda: Node("txt", "concat(", inner(), ", ", inner(), ")"),
                lambda: Node("txt", "CAST(", inner(rng.choice(["int", "dat", "bool"])), " AS TEXT)"),
            ])()
        if family == "dat":
            return Node("dat", "CAST(", inner("ts"), " AS DATE)") if self.chance(0.5) else Node("dat", "CAST(date_trunc('month', ", inner(), ") AS DATE)")
        return rng.choice([
            lambda: Node("ts", f"date_trunc('{rng.choice(['year', 'month', 'day', 'hour'])}', ", inner(), ")"),
            lambda: Node("ts", "(", inner(), f" {rng.choice('+-')} INTERVAL '{rng.choice(['1 day', '3 hours', '1 month'])}')"),
            lambda: Node("ts", "CAST(", inner("dat"), " AS TIMESTAMP)"),
            lambda: Node("ts", "(", inner("dat"), f" {rng.choice('+-')} INTERVAL '{rng.choice(['1 hour', '1 day 90 minutes'])}')"),
        ])()

    def boolean(self, scope, depth=2, subqueries=True):
        rng = self.rng
        if depth > 0 and self.chance(0.45):
            inner = lambda: self.boolean(scope, depth - 1, subqueries)
            return rng.choice([
                lambda: Node("bool", "(", inner(), " AND ", inner(), ")"),
                lambda: Node("bool", "(", inner(), " OR ", inner(), ")"),
                lambda: Node("bool", "(NOT ", inner(), ")"),
                lambda: Node("bool", "(", Node("all", *[inner() for _ in range(3)], sep=rng.choice([" AND ", " OR "]), least=1), ")"),
                lambda: Node("bool", "((", inner(), ") IS " + rng.choice(["", "NOT "]) + rng.choice(["TRUE", "FALSE", "NULL"]) + ")"),
                lambda: Node("bool", "(", inner(), rng.choice([" = ", " <> ", " IS DISTINCT FROM ", " IS NOT DISTINCT FROM "]), inner(), ")"),
                lambda: Node("bool", "(CASE WHEN ", inner(), " THEN ", inner(), Node("optional", " ELSE ", inner()), " END)"),
            ])()
        family = self.family(scope)
        e = lambda of=family: self.expr(of, scope, depth - 1, subqueries)
        simple = lambda of=family: self.column(of, scope)
        negated = rng.choice(["", "", "NOT "])
        other = rng.choice(NUMBERS) if family in NUMBERS and self.chance(0.3) else family
        operator = rng.choice([" = ", " = ", " <> ", " < ", " <= ", " > ", " >= ", " IS DISTINCT FROM ", " IS NOT DISTINCT FROM "])
        if family == "bool" and self.chance(0.5):
            return simple()
        choices = [
            lambda: Node("bool", "(", e(), operator, e(other), ")"),
            lambda: Node("bool", "(", simple(), operator, self.constant(family), ")"),
            lambda: Node("bool", "(", simple(), operator, self.constant(family), ")"),
            lambda: Node("bool", "(", self.constant(family), operator, simple(), ")"),
            lambda: Node("bool", "(", simple(), f" IS {negated}NULL)"),
            lambda: Node("bool", "(", simple(), f" {negated}IN (", self.items(family, scope), "))"),
            lambda: Node("bool", "(", simple(), f" {negated}BETWEEN ", e(), " AND ", e(), ")"),
            lambda: Node("bool", "(", self.expr("txt", scope, 1, False), f" {negated}{rng.choice(['LIKE', 'LIKE', 'ILIKE'])} {literal(rng.choice(PATTERNS), 'txt')})"),
        ]
        if subqueries:
            choices += [
                lambda: self.membership(e() if self.chance(0.4) else simple(), family, scope, negated),
                lambda: Node("bool", f"({negated}EXISTS (", self.inner_query(scope, None), "))"),
                lambda: self.quantified(simple(), family, scope),
            ]
        return rng.choice(choices)()

    def items(self, family, scope):
        one = lambda: Node(family, "NULL") if self.chance(0.08) else self.constant(family) if self.chance(0.9) else self.column(family, scope)
        return Node("list", *[one() for _ in range(self.rng.randint(1, 5))], sep=", ", least=1)

    # Subqueries in expressions.

    def membership(self, left, family, scope, negated):
        if self.chance(0.1):
            of = self.family(scope)
            return Node("bool", "((", left, ", ", self.column(of, scope), f") {negated}IN (", self.inner_query(scope, [family, of]), "))")
        return Node("bool", "(", left, f" {negated}IN (", self.inner_query(scope, [family]), "))")

    def quantified(self, left, family, scope):
        operator = self.rng.choice(["= ANY", "<> ALL", "< ALL", ">= ALL", "> ANY", "<= ANY", "= ALL", "<> ANY"])
        return Node("bool", "(", left, f" {operator} (", self.inner_query(scope, [family]), "))")

    def scalar(self, family, scope):
        """One value: an aggregate without groups."""
        table = self.rng.choice(self.tables)
        alias, text = self.called(table, self.name("q"))
        own = [(f"{alias}.{column}", FAMILIES[type_]) for column, type_ in table.columns]
        item, _ = self.aggregate(family, own)
        where = Node("optional", " WHERE ", self.correlated(own, scope)) if self.chance(0.8) else ""
        return Node(family, "(SELECT ", item, f" FROM {text}", where, ")")

    def correlated(self, own, outer):
        conditions = []
        if self.chance(0.7):
            family = self.family(outer)
            operator = " = " if self.chance(0.8) else self.rng.choice([" <> ", " < ", " >= "])
            conditions.append(Node("bool", self.column(family, own), operator, self.column(family, outer)))
        if not conditions or self.chance(0.5):
            conditions.append(self.boolean(own if self.chance(0.8) else own + outer, 1, self.chance(0.1)))
        return Node("all", *conditions, sep=" AND ", least=1)

    def inner_query(self, outer, families):
        """A query for IN, ANY and EXISTS (`families` is None)."""
        if self.chance(0.08) and families is not None:
            return self.set_operation(families)
        table = self.rng.choice(self.tables)
        alias, text = self.called(table, self.name("q"))
        own = [(f"{alias}.{column}", FAMILIES[type_]) for column, type_ in table.columns]
        where = Node("optional", " WHERE ", self.correlated(own, outer)) if self.chance(0.75) else ""
        if families is None:
            item = Node("items", self.rng.choice(["1", "*", f"{alias}.k"]))
        elif self.chance(0.12):
            aggregates = [self.aggregate(family, own)[0] for family in families]
            group = Node("optional", " GROUP BY ", f"{alias}.k") if self.chance(0.7) else ""
            having = Node("optional", " HAVING count(*) > 1") if self.chance(0.3) else ""
            return Node("query", "SELECT ", Node("items", *aggregates, sep=", ", least=1), f" FROM {text}", where, group, having)
        else:
            item = Node("items", *[self.expr(family, own, 1, False) for family in families], sep=", ", least=len(families))
        return Node("query", f"SELECT {'DISTINCT ' if self.chance(0.1) else ''}", item, f" FROM {text}", where)

    # Aggregates.

    def aggregate(self, family, scope):
        """An aggregate of a family, and whether it is exact."""
        rng = self.rng
        e = lambda of=family: self.expr(of, scope, 1, False) if self.chance(0.4) else self.column(of, scope)
        distinct = rng.choice(["", "", "", "DISTINCT "])
        choices = [lambda: (rng.choice(["min(", "max("]), e(), ")")]
        if family == "int":
            of = lambda: self.family(scope)
            choices = choices[:1] + [
                lambda: ("count(*)",), lambda: ("count(*)",),
                lambda: ("count(", distinct, e(of()), ")"), lambda: ("count(DISTINCT ", e(of()), ")"),
                lambda: ("CAST(sum(", distinct, e(), ") AS BIGINT)"), lambda: ("CAST(sum(", distinct, e(), ") AS BIGINT)"),
            ]
        elif family == "dec":
            choices += [lambda: ("CAST(sum(", distinct, e(), ") AS DECIMAL(30, 2))")]
        elif family == "dbl":
            choices += [
                lambda: ("sum(", distinct, e(), ")"), lambda: ("avg(", distinct, "CAST(", e(rng.choice(NUMBERS)), " AS DOUBLE PRECISION))"),
                lambda: (rng.choice(["stddev_pop(", "var_samp(", "var_pop(", "stddev_samp("]), e(), ")"),
            ]
        elif family == "txt":
            choices += [lambda: ("string_agg(", inner := self.column("txt", scope), ", ',' ORDER BY ", inner, ")")]
        elif family == "bool":
            choices = [lambda: (rng.choice(["bool_and(", "bool_or("]), self.boolean(scope, 1, False), ")")]
        parts = rng.choice(choices)()
        is_cast = parts[0].startswith("CAST(")
        filtered = Node("optional", " FILTER (WHERE ", self.boolean(scope, 1, False), ")") if self.chance(0.2) else ""
        if is_cast and filtered:
            return Node(family, *parts[:-1], ")", filtered, parts[-1][1:]), True
        return Node(family, *parts, filtered), family != "dbl"

    # FROM.

    def relation(self, depth):
        """A relation's text, its columns, and which of them are a key."""
        rng, alias = self.rng, self.name("t")
        if self.ctes and self.chance(0.3):
            name, columns = rng.choice(self.ctes)
            return Node("relation", f"{name} {alias}"), [(f"{alias}.{column}", family) for column, family in columns], None
        if depth > 0 and self.chance(0.15):
            families = [rng.choice(list(FAMILIES.values())) for _ in range(rng.randint(1, 3))]
            query, columns = self.query(families, depth - 1)
            return Node("relation", "(", query, f") {alias}"), [(f"{alias}.{column}", family) for column, family in columns], None
        table = rng.choice(self.tables)
        alias, text = self.called(table, alias)
        return Node("relation", text), [(f"{alias}.{column}", FAMILIES[type_]) for column, type_ in table.columns], [f"{alias}.id"]

    def joined(self, depth):
        """FROM's text, the columns, and a key or None."""
        relation, scope, key = self.relation(depth)
        source = Node("from", relation)
        for _ in range(self.rng.choice([0, 0, 0, 1, 1, 1, 2, 2, 3])):
            right, columns, right_key = self.relation(depth)
            key = key + right_key if key and right_key else None
            kind = self.rng.choice(["JOIN", "JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "CROSS JOIN"])
            if kind == "CROSS JOIN" and self.chance(0.7):
                kind = "JOIN"
            condition = "" if kind == "CROSS JOIN" else Node("on", " ON ", self.join_condition(scope, columns, kind))
            source = Node("from", source, f" {kind} ", right, condition)
            scope = scope + columns
        return source, scope, key

    def join_condition(self, left, right, kind):
        conditions = []
        for _ in range(self.rng.choice([1, 1, 1, 2])):
            family = self.family([one for one in left if one[1] in {of for _, of in right}] or left)
            other = self.rng.choice(NUMBERS) if family in NUMBERS and self.chance(0.2) else family
            operator = " = " if self.chance(0.9) else " IS NOT DISTINCT FROM " if self.chance(0.5) else self.rng.choice([" < ", " >= ", " <> "])
            conditions.append(Node("bool", self.column(family, left), operator, self.column(other, right)))
        if self.chance(0.35):
            of = self.rng.choice([left, right, left + right])
            conditions.append(self.boolean(of, 1, kind == "JOIN" and self.chance(0.1)))
        return Node("all", *conditions, sep=" AND ", least=1)

    # Queries.

    def items_of(self, exprs):
        names = [self.name("x") for _ in exprs]
        return Node("items", *[Node("item", expr, f" AS {name}", name=name) for expr, name in zip(exprs, names)], sep=", ", least=1), names

    def where(self, scope, share=0.7):
        return Node("optional", " WHERE ", self.boolean(scope, 2)) if self.chance(share) else ""

    def query(self, families, depth, tail=True):
        """A query of columns of these families, and its columns."""
        kinds = [self.plain, self.plain, self.grouped, self.grouped, self.windowed, self.whole]
        if depth > 0 and self.chance(0.15):
            query = self.set_operation(families)
            return query, [(name, family) for name, family in zip(query.name, families)]
        return self.rng.choice(kinds)(families, depth, tail)

    def end(self, query, names, is_exact, tail):
        """With ORDER BY and LIMIT, perhaps."""
        if tail and is_exact and self.chance(0.25):
            directions = {name: f"{self.rng.choice(['ASC', 'DESC'])} NULLS {self.rng.choice(['FIRST', 'LAST'])}" for name in names}
            limit = Node("optional", f" LIMIT {self.rng.choice([0, 1, 3, 10, 50])}") if self.chance(0.8) else ""
            offset = Node("optional", f" OFFSET {self.rng.choice([0, 1, 5])}") if self.chance(0.3) else ""
            return query.with_parts(query.parts + (" ", Order(directions), limit, offset))
        return query

    def plain(self, families, depth, tail):
        source, scope, _ = self.joined(depth)
        items, names = self.items_of([self.expr(family, scope, 2, self.chance(0.3)) for family in families])
        distinct = Node("optional", "DISTINCT ") if self.chance(0.2) else ""
        query = Node("query", "SELECT ", distinct, items, " FROM ", source, self.where(scope))
        return self.end(query, names, True, tail), list(zip(names, families))

    def whole(self, families, depth, tail):
        """Aggregates of all rows."""
        source, scope, _ = self.joined(depth)
        aggregates = [self.aggregate(family, scope) for family in families]
        items, names = self.items_of([aggregate for aggregate, _ in aggregates])
        having = Node("optional", " HAVING ", self.boolean([("count(*)", "int"), (f"min({scope[0][0]})", scope[0][1])], 1, False)) if self.chance(0.1) else ""
        return Node("query", "SELECT ", items, " FROM ", source, self.where(scope), having), list(zip(names, families))

    def grouped(self, families, depth, tail):
        source, scope, _ = self.joined(depth)
        keys = [(text, family) for text, family in self.rng.sample(scope, min(len(scope), self.rng.randint(1, 3)))]
        texts = [Node("key", text) for text, _ in keys]
        sets = self.rng.random()
        if sets < 0.65 or len(keys) < 2:
            by = Node("keys", *texts, sep=", ", least=1)
            if self.chance(0.2):
                family = self.family(scope)
                key = self.expr(family, scope, 2, False)
                by, keys = Node("keys", by, ", ", key), keys + [(key, family)]
        elif sets < 0.85:
            by = Node("keys", self.rng.choice(["ROLLUP (", "CUBE ("]), Node("list", *texts, sep=", ", least=1), ")")
        else:
            subsets = [", ".join(text for text, _ in self.rng.sample(keys, self.rng.randint(0, len(keys)))) for _ in range(3)]
            by = Node("keys", "GROUPING SETS (", Node("sets", *[f"({subset})" for subset in subsets], sep=", ", least=1), ")")
        exprs, is_exact = [], True
        plain_keys = [(text, family) for text, family in keys if isinstance(text, str)]
        for family in families:
            of_family = [text for text, of in keys if of == family]
            if of_family and self.chance(0.6):
                exprs.append(Node(family, self.rng.choice(of_family)))
            elif plain_keys and sets < 0.65 and self.chance(0.2):
                exprs.append(self.expr(family, plain_keys, 2, False))
            else:
                aggregate, exact = self.aggregate(family, scope)
                exprs.append(aggregate)
                is_exact &= exact
        if sets >= 0.65 and len(keys) >= 2 and self.chance(0.3) and "int" in families:
            exprs[families.index("int")] = Node("int", f"grouping({keys[0][0]})")
        items, names = self.items_of(exprs)
        having = ""
        if self.chance(0.25):
            having = Node("optional", " HAVING ", self.boolean(plain_keys + [("count(*)", "int"), (f"max({scope[0][0]})", scope[0][1])], 1, False))
        query = Node("query", "SELECT ", items, " FROM ", source, self.where(scope), " GROUP BY ", by, having)
        return self.end(query, names, is_exact, tail), list(zip(names, families))

    def windowed(self, families, depth, tail):
        source, scope, key = self.joined(depth)
        if key is None or self.chance(0.3):
            return self.plain(families, depth, tail)
        exprs, is_exact = [], True
        for family in families:
            if self.chance(0.4):
                exprs.append(self.column(family, scope))
            else:
                expr, exact = self.window(family, scope, key)
                exprs.append(expr)
                is_exact &= exact
        items, names = self.items_of(exprs)
        query = Node("query", "SELECT ", items, " FROM ", source, self.where(scope, 0.5))
        return self.end(query, names, is_exact, tail), list(zip(names, families))

    def window(self, family, scope, key):
        rng = self.rng
        direction = lambda: f"{rng.choice(['ASC', 'DESC'])} NULLS {rng.choice(['FIRST', 'LAST'])}"
        by, of = rng.choice(scope)
        part = Node("optional", f"PARTITION BY {rng.choice(scope)[0]} ") if self.chance(0.6) else ""
        partial = f"ORDER BY {by} {direction()}"
        total = partial + "".join(f", {one} {direction()}" for one in key)
        frames = ["", "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW", "ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING",
                  "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING", "ROWS BETWEEN 3 PRECEDING AND 1 PRECEDING",
                  "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING", "ROWS BETWEEN 1 FOLLOWING AND 3 FOLLOWING"]
        peers = ["", "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW", "RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
                 "GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING", "RANGE BETWEEN CURRENT ROW AND CURRENT ROW"]
        if of == "int":
            peers += ["RANGE BETWEEN 1 PRECEDING AND 2 FOLLOWING", "RANGE BETWEEN 2 PRECEDING AND CURRENT ROW", "RANGE BETWEEN 1 FOLLOWING AND 3 FOLLOWING"]
        if family == "int" and self.chance(0.5):
            choice = rng.choice(["row_number()", "rank()", "dense_rank()", "ntile(3)"])
            order = partial if "rank" in choice else total
            return Node(family, choice, " OVER (", part, order, ")"), True
        if self.chance(0.4):
            column = self.column(family, scope)
            function = rng.choice([("lag(", ")"), ("lead(", ")"), ("lag(", ", 2)"), ("first_value(", ")"), ("last_value(", ")"), ("nth_value(", ", 2)")])
            frame = "" if function[0] in ("lag(", "lead(") else " " + rng.choice(frames)
            return Node(family, function[0], column, function[1], " OVER (", part, total, Node("optional", frame), ")"), True
        aggregate, exact = self.aggregate(family, scope)
        while "DISTINCT" in (text := render(aggregate, "ours")) or "ORDER BY" in text or text.startswith("CAST("):
            aggregate, exact = self.aggregate(family, scope) if self.chance(0.9) else (Node(family, "max(", self.column(family, scope), ")"), True)
        if self.chance(0.2):
            return Node(family, aggregate, " OVER (", part, ")"), exact
        order, frame = (total, rng.choice(frames)) if self.chance(0.5) else (partial, rng.choice(peers))
        return Node(family, aggregate, " OVER (", part, order, Node("optional", " " + frame), ")"), exact

    def set_operation(self, families):
        queries = [self.query(families, 0, tail=False) for _ in range(self.rng.choice([2, 2, 3]))]
        # From left to right, said aloud: INTERSECT binds more tightly.
        parts = [Node("side", "(", queries[0][0], ")")]
        for query, _ in queries[1:]:
            operator = self.rng.choice(["UNION", "UNION ALL", "UNION ALL", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL"])
            left = parts if len(parts) == 1 else [Node("side", "(", *parts, ")")]
            parts = left + [f" {operator} ", Node("side", "(", query, ")")]
        return Node("query", *parts, name=[name for name, _ in queries[0][1]])

    def statement(self):
        self.ctes, self.names = [], 0
        parts = []
        for _ in range(self.rng.choice([0, 0, 0, 0, 1, 2])):
            families = [self.rng.choice(list(FAMILIES.values())) for _ in range(self.rng.randint(1, 4))]
            query, columns = self.query(families, 1)
            name = self.name("w")
            self.ctes.append((name, columns))
            parts.append(Node("cte", f"{name} AS (", query, ")"))
        families = [self.rng.choice(list(FAMILIES.values())) for _ in range(self.rng.randint(1, 5))]
        query, _ = self.query(families, 2)
        if not parts:
            return Node("statement", query)
        return Node("statement", Node("optional", "WITH ", Node("ctes", *parts, sep=", ", least=1), " "), query)
