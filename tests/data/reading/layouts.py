"""Tables of made-up interactions in the layouts of published data sets, and the expected logs."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

START = 1_500_000_000  # 14 July 2017, in seconds since 1970
N_USERS = 14
N_ITEMS = 12


@dataclass(frozen=True)
class Interaction:
    """One made-up interaction: whole numbers from which each layout makes its ids and cells."""

    user: int
    item: int
    stars: int
    time: int

    @property
    def day(self) -> str:
        return datetime.fromtimestamp(self.time, UTC).strftime("%Y-%m-%d")

    @property
    def clock(self) -> str:
        return datetime.fromtimestamp(self.time, UTC).strftime("%Y-%m-%d %H:%M:%S")

    @property
    def zulu(self) -> str:
        return self.clock.replace(" ", "T") + "Z"


def draw_interactions(seed: int) -> list[Interaction]:
    """Return about a hundred interactions in the order of time, no pair twice."""
    rng = random.Random(seed)
    pairs = [(user, item) for user in range(N_USERS) for item in range(N_ITEMS) if rng.random() < 0.6]
    rng.shuffle(pairs)
    times = sorted(rng.sample(range(START, START + 10_000_000), len(pairs)))
    return [
        Interaction(user, item, rng.randint(1, 5), time)
        for (user, item), time in zip(pairs, times, strict=True)
    ]


@dataclass(frozen=True)
class Table:
    """Store the cells of a file as text, with the roles of its columns."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    roles: dict[str, str]  # role -> column
    write: Callable[[Table], str]
    header: bool = True
    named: tuple[str, ...] = ()  # roles whose columns the caller names
    options: dict[str, Any] = field(default_factory=dict)
    times: dict[str, int] = field(default_factory=dict)  # a cell of time -> seconds since 1970
    titles: str = ""  # a column of free text

    def cells(self, role: str) -> list[str]:
        """Return the cells of the column with this role."""
        place = self.columns.index(self.roles[role])
        return [row[place] for row in self.rows]

    def read_options(self) -> dict[str, Any]:
        """Return the options that a user passes: names of columns, or their places without a header."""
        options = dict(self.options)
        for role in self.named:
            place = self.columns.index(self.roles[role])
            options[role] = self.columns[place] if self.header else f"column {place + 1}"
        return options

    def with_columns(self, order: Sequence[int]) -> Table:
        """Return the table with its columns in another order."""
        columns = tuple(self.columns[place] for place in order)
        rows = tuple(tuple(row[place] for place in order) for row in self.rows)
        return replace(self, columns=columns, rows=rows)

    def with_cell(self, row: int, column: str, cell: str) -> Table:
        """Return the table with another cell."""
        place = self.columns.index(column)
        cells = list(self.rows[row])
        cells[place] = cell
        rows = list(self.rows)
        rows[row] = tuple(cells)
        return replace(self, rows=tuple(rows))


@dataclass(frozen=True)
class Expected:
    """Store the expected content of a log: pairs in the order of the file, with their values and times."""

    pairs: list[tuple[str, str]]
    values: list[float] | None
    times: list[int] | None
    n_rows: int


def expect(table: Table) -> Expected:
    """Return the expected log of a table, computed from its cells without the library."""
    users = table.cells("user")
    items = table.cells("item")
    values = None
    if "value" in table.roles:
        values = [float(cell) for cell in table.cells("value")]
    times = None
    if "timestamp" in table.roles:
        times = [table.times[cell] for cell in table.cells("timestamp")]
    threshold = table.options.get("threshold")
    keep = range(len(users))
    if values is not None and threshold is None:
        keep = [row for row in keep if values[row] != 0]
    elif values is not None and threshold != "all":
        keep = [row for row in keep if values[row] >= threshold]
    return Expected(
        [(users[row].strip(), items[row].strip()) for row in keep],
        None if values is None else [values[row] for row in keep],
        None if times is None else [times[row] for row in keep],
        len(users),
    )


def delimit(separator: str, quote: str = "") -> Callable[[Table], str]:
    """Return a writer of lines of cells."""

    def write(table: Table) -> str:
        lines = [table.columns, *table.rows] if table.header else list(table.rows)
        return "".join(separator.join(f"{quote}{cell}{quote}" for cell in line) + "\n" for line in lines)

    return write


def _records(table: Table) -> list[dict[str, Any]]:
    numbers = {table.roles[role] for role in ("value", "timestamp") if role in table.roles}
    records = []
    for row in table.rows:
        record: dict[str, Any] = dict(zip(table.columns, row, strict=True))
        for name in numbers:
            if record[name].replace(".", "", 1).isdigit():
                record[name] = float(record[name]) if "." in record[name] else int(record[name])
        records.append(record)
    return records


def write_json_lines(table: Table) -> str:
    return "".join(json.dumps(record) + "\n" for record in _records(table))


def write_json_list(table: Table) -> str:
    return json.dumps(_records(table))


def write_json_columns(table: Table) -> str:
    records = _records(table)
    return json.dumps({name: [record[name] for record in records] for name in table.columns})


def write_dicts(table: Table) -> str:
    return "".join(f"{record!r}\n" for record in _records(table))


def write_unicode_dicts(table: Table) -> str:
    """Return lines of dictionaries as Python 2 printed them."""
    lines = []
    for record in _records(table):
        cells = ", ".join(
            f"u{name!r}: {'u' if isinstance(cell, str) else ''}{cell!r}" for name, cell in record.items()
        )
        lines.append(f"{{{cells}}}\n")
    return "".join(lines)


def _items_of_users(table: Table) -> dict[str, list[str]]:
    lists: dict[str, list[str]] = {}
    for user, item in zip(table.cells("user"), table.cells("item"), strict=True):
        lists.setdefault(user, []).append(item)
    return lists


def write_adjacency(table: Table) -> str:
    return "".join(f"{user} {' '.join(items)}\n" for user, items in _items_of_users(table).items())


def write_lists_of_users(table: Table) -> str:
    return json.dumps(_items_of_users(table))


def write_blocks(table: Table) -> str:
    """Return ratings in blocks below a line for each item, as Netflix published them."""
    blocks: dict[str, list[str]] = {}
    for user, item, value, time in zip(
        *(table.cells(role) for role in ("user", "item", "value", "timestamp")), strict=True
    ):
        blocks.setdefault(item, []).append(f"{user},{value},{time}\n")
    return "".join(f"{item}:\n{''.join(lines)}" for item, lines in blocks.items())


def write_sessions(table: Table) -> str:
    """Return a JSON object per session with a list of its events, as OTTO published them."""
    events: dict[str, list[dict[str, Any]]] = {}
    for record in _records(table):
        session = record.pop(table.roles["user"])
        events.setdefault(session, []).append(record)
    lines = [json.dumps({"session": session, "events": of}) for session, of in events.items()]
    return "\n".join(lines) + "\n"


def write_matrix(table: Table) -> str:
    """Return a line per user with the rating of each item, or 0."""
    ratings = dict(
        zip(zip(table.cells("user"), table.cells("item"), strict=True), table.cells("value"), strict=True)
    )
    users = sorted(set(table.cells("user")))
    items = sorted(set(table.cells("item")))
    lines = [" ".join(ratings.get((user, item), "0") for item in items) for user in users]
    return "\n".join(lines) + "\n"


Cell = Callable[[Interaction], object]


def build(
    spec: str,
    write: Callable[[Table], str],
    roles: dict[str, str],
    *,
    makers: Sequence[Cell],
    header: bool = True,
    named: str = "",
    titles: str = "",
    sort: bool = False,
    options: dict[str, Any] | None = None,
) -> Table:
    """Return a table with the columns of `spec`; functions of an interaction make its cells."""
    names = tuple(spec.split())
    interactions = draw_interactions(seed=1)
    if sort:
        interactions.sort(key=lambda entry: (entry.user, entry.item))
    rows = tuple(tuple(str(make(entry)) for make in makers) for entry in interactions)
    times = {}
    if "timestamp" in roles:
        make_time = makers[names.index(roles["timestamp"])]
        is_day = make_time is DAY
        for entry in interactions:
            seconds = entry.time // 86_400 * 86_400 if is_day else entry.time
            times[str(make_time(entry))] = seconds
    return Table(
        columns=names,
        rows=rows,
        roles=roles,
        write=write,
        header=header,
        named=tuple(named.split()),
        options=dict(options or {}),
        times=times,
        titles=titles,
    )


def number(low: int, step: int, of: str) -> Cell:
    """Return a maker of whole numbers as ids of users or items."""
    return lambda entry: low + step * getattr(entry, of)


def code(form: str, of: str) -> Cell:
    """Return a maker of ids of text."""
    return lambda entry: form.format(getattr(entry, of))


def constant(cell: object) -> Cell:
    return lambda entry: cell


STARS: Cell = lambda entry: entry.stars  # noqa: E731
TIME: Cell = lambda entry: entry.time  # noqa: E731
MILLISECONDS: Cell = lambda entry: entry.time * 1000  # noqa: E731
DAY: Cell = lambda entry: entry.day  # noqa: E731
CLOCK: Cell = lambda entry: entry.clock  # noqa: E731
FRACTION: Cell = lambda entry: f"{entry.clock}.004101+00:00"  # noqa: E731
HALF_STARS: Cell = lambda entry: entry.stars - 0.5  # noqa: E731
CLICK: Cell = lambda entry: int(entry.stars > 3)  # noqa: E731
HISTORY: Cell = lambda entry: f"N{entry.user} N{entry.item}"  # noqa: E731
SHOWN: Cell = lambda entry: f"N{entry.item}-1 N{entry.item + 1}-0"  # noqa: E731
ZULU: Cell = lambda entry: entry.zulu  # noqa: E731
TITLE: Cell = lambda entry: f"title {entry.item}"  # noqa: E731
USER = number(1, 17, "user")
ITEM = number(1, 31, "item")
REVIEWER = code("A{:013d}X", "user")
PRODUCT = code("B00{:07d}", "item")
RATED = {"user": "user", "item": "item", "value": "rating", "timestamp": "time"}
FOUR = {"threshold": 4}
HASH: Cell = lambda entry: f"{entry.user * 7919 + 10**6:032x}"  # noqa: E731
TAB = delimit("\t")
COMMA = delimit(",")
PLACES = {"user": "a", "item": "b", "value": "c", "timestamp": "d"}
PAIR = {"user": "user", "item": "item"}
FOUR_PLACES = (USER, ITEM, STARS, TIME)
AMAZON = {"user": "reviewerID", "item": "asin", "value": "overall", "timestamp": "unixReviewTime"}
REVIEW = (REVIEWER, PRODUCT, TITLE, STARS, TIME)
REVIEW_COLUMNS = "reviewerID asin summary overall unixReviewTime"
MOVIES = {"user": "userId", "item": "movieId", "value": "rating", "timestamp": "timestamp"}
BOOKS = {"user": "User-ID", "item": "ISBN", "value": "Book-Rating"}
GAMES = {"user": "username", "item": "product_id"}
SONGS = {"user": "a", "item": "c", "timestamp": "b"}
# Name -> a table in this layout; those of REFUSED cannot be read without being told more.
LAYOUTS = {
    "MovieLens 100K": build("a b c d", TAB, PLACES, makers=FOUR_PLACES, header=False, options=FOUR),
    "MovieLens 1M": build("a b c d", delimit("::"), PLACES, makers=FOUR_PLACES, header=False, options=FOUR),
    "MovieLens 10M": build(
        "a b c d", delimit("::"), PLACES, makers=(USER, ITEM, HALF_STARS, TIME), header=False, options=FOUR
    ),
    "MovieLens latest": build(" ".join(MOVIES.values()), COMMA, MOVIES, makers=FOUR_PLACES, options=FOUR),
    "MovieLens 20M": build(
        " ".join(MOVIES.values()), delimit(",", '"'), MOVIES, makers=(USER, ITEM, STARS, CLOCK), options=FOUR
    ),
    "HetRec": build(
        "userID artistID weight",
        TAB,
        {"user": "userID", "item": "artistID", "value": "weight"},
        makers=(USER, ITEM, number(11, 97, "stars")),
    ),
    "Netflix rows": build(
        "a b c d", COMMA, PLACES, makers=(USER, ITEM, STARS, DAY), header=False, options=FOUR
    ),
    "Amazon reviews": build(
        REVIEW_COLUMNS, write_json_lines, AMAZON, makers=REVIEW, options=FOUR, titles="summary"
    ),
    "Amazon ratings": build(
        "a b c d", COMMA, PLACES, makers=(REVIEWER, PRODUCT, STARS, TIME), header=False, options=FOUR
    ),
    "Yelp": build(
        "review_id user_id business_id stars text date",
        write_json_lines,
        {"user": "user_id", "item": "business_id", "value": "stars", "timestamp": "date"},
        makers=(HASH, REVIEWER, PRODUCT, STARS, TITLE, CLOCK),
        named="item",
        options=FOUR,
        titles="text",
    ),
    "Goodreads": build(
        "user_id book_id is_read rating is_reviewed",
        COMMA,
        {"user": "user_id", "item": "book_id", "value": "rating"},
        makers=(USER, ITEM, constant(1), STARS, constant(0)),
        options=FOUR,
    ),
    "Book-Crossing": build(
        " ".join(BOOKS.values()),
        delimit(";", '"'),
        BOOKS,
        makers=(USER, code("0{:08d}X", "item"), STARS),
        options=FOUR,
    ),
    "Gowalla": build(
        "a b c d e",
        TAB,
        {"user": "a", "item": "e", "timestamp": "b"},
        makers=(USER, ZULU, constant(30.2), constant(-97.7), ITEM),
        header=False,
        named="user item timestamp",
    ),
    "LastFM 1K": build(
        "a b c d e f",
        TAB,
        SONGS,
        makers=(
            code("user_{:06d}", "user"),
            ZULU,
            code("artist-{}", "item"),
            TITLE,
            code("track-{}", "item"),
            TITLE,
        ),
        header=False,
        named="user item timestamp",
        titles="d",
    ),
    "LastFM 360K": build(
        "a b c d",
        TAB,
        {"user": "a", "item": "b", "value": "d"},
        makers=(REVIEWER, code("artist-{}", "item"), TITLE, number(11, 97, "stars")),
        header=False,
        named="user item value",
        titles="c",
        options={"ignore": "column 3"},
    ),
    "Yoochoose": build(
        "a b c d",
        COMMA,
        SONGS,
        makers=(USER, ZULU, ITEM, constant(0)),
        header=False,
        named="user item timestamp",
        options={"ignore": "column 4"},
    ),
    "Diginetica": build(
        "sessionId;userId;itemId;timeframe;eventdate".replace(";", " "),
        delimit(";"),
        {"user": "sessionId", "item": "itemId"},
        makers=(USER, constant("NA"), ITEM, number(5, 3, "time"), DAY),
        named="user",
    ),
    "Retailrocket": build(
        "timestamp visitorid event itemid transactionid",
        COMMA,
        {"user": "visitorid", "item": "itemid", "timestamp": "timestamp"},
        makers=(MILLISECONDS, USER, constant("view"), ITEM, constant("")),
    ),
    "Dressipi": build(
        "session_id item_id date",
        COMMA,
        {"user": "session_id", "item": "item_id", "timestamp": "date"},
        makers=(USER, ITEM, CLOCK),
        named="user",
    ),
    "Ta-Feng": build(
        "TRANSACTION_DT CUSTOMER_ID PRODUCT_ID AMOUNT",
        COMMA,
        {"user": "CUSTOMER_ID", "item": "PRODUCT_ID"},
        makers=(DAY, code("{:08d}", "user"), ITEM, STARS),
    ),
    "H&M": build(
        "t_dat customer_id article_id price",
        COMMA,
        {"user": "customer_id", "item": "article_id"},
        makers=(DAY, HASH, code("0{:09d}", "item"), constant(0.05)),
    ),
    "Steam": build(
        "username hours product_id text",
        write_unicode_dicts,
        GAMES,
        makers=(REVIEWER, STARS, ITEM, TITLE),
        named="user",
        titles="text",
    ),
    "Python dictionaries": build(
        "username hours product_id text",
        write_dicts,
        GAMES,
        makers=(REVIEWER, STARS, ITEM, TITLE),
        named="user",
        titles="text",
    ),
    "Taobao": build(
        "a b c d e",
        COMMA,
        {"user": "a", "item": "b", "timestamp": "e"},
        makers=(USER, ITEM, number(7, 3, "item"), constant("pv"), TIME),
        header=False,
        named="user item timestamp",
    ),
    "KuaiRec": build(
        "user_id video_id play_duration timestamp",
        COMMA,
        {"user": "user_id", "item": "video_id", "timestamp": "timestamp", "value": "play_duration"},
        makers=(USER, ITEM, number(1011, 97, "stars"), TIME),
    ),
    "Yahoo! R3": build(
        "a b c",
        TAB,
        {"user": "a", "item": "b", "value": "c"},
        makers=(USER, ITEM, STARS),
        header=False,
        options=FOUR,
    ),
    "RecBole": build(
        "user_id:token item_id:token rating:float timestamp:float",
        TAB,
        {
            "user": "user_id:token",
            "item": "item_id:token",
            "value": "rating:float",
            "timestamp": "timestamp:float",
        },
        makers=FOUR_PLACES,
        options=FOUR,
    ),
    "LightGCN": build(
        "user item",
        write_adjacency,
        PAIR,
        makers=(USER, ITEM),
        sort=True,
        header=False,
        options={"layout": "adjacency"},
    ),
    "NCF": build("a b c d", TAB, PLACES, makers=FOUR_PLACES, header=False, options={"threshold": "all"}),
    "TREC qrels": build(
        "a q b c",
        delimit(" "),
        {"user": "a", "item": "b", "value": "c"},
        makers=(USER, constant(0), ITEM, STARS),
        header=False,
        options={"threshold": 1},
    ),
    "pairs": build(
        "user item", delimit(" "), PAIR, makers=(USER, ITEM), header=False, options={"header": False}
    ),
    "bars": build(
        "user item time", delimit("|"), {**PAIR, "timestamp": "time"}, makers=(REVIEWER, PRODUCT, TIME)
    ),
    "list of records": build(
        "user item rating time", write_json_list, RATED, makers=FOUR_PLACES, options=FOUR
    ),
    "columns of JSON": build(
        "user item rating time", write_json_columns, RATED, makers=FOUR_PLACES, options=FOUR
    ),
    "titles first": build(
        "title user item rating time",
        COMMA,
        RATED,
        makers=(TITLE, *FOUR_PLACES),
        options=FOUR,
        titles="title",
    ),
}
# Impressions with clicks, which are read as an impression log.
IMPRESSIONS = {
    "KuaiRand": build(
        "user_id video_id date hourmin time_ms is_click is_like play_time_ms",
        COMMA,
        {"user": "user_id", "item": "video_id", "timestamp": "time_ms", "clicked": "is_click"},
        makers=(
            USER,
            ITEM,
            constant(20220408),
            constant(1200),
            MILLISECONDS,
            CLICK,
            constant(0),
            number(1011, 97, "stars"),
        ),
    ),
    "impressions with dates": build(
        "user_id video_id time is_click",
        TAB,
        {"user": "user_id", "item": "video_id", "timestamp": "time", "clicked": "is_click"},
        makers=(USER, ITEM, CLOCK, CLICK),
    ),
}
REFUSED = {
    "Netflix blocks": build("a b c d", write_blocks, PLACES, makers=(USER, ITEM, STARS, DAY), header=False),
    "Coat": build(
        "a b c",
        write_matrix,
        {"user": "a", "item": "b", "value": "c"},
        makers=(USER, ITEM, STARS),
        header=False,
    ),
    "OTTO": build(
        "session aid ts type",
        write_sessions,
        {"user": "session", "item": "aid", "timestamp": "ts"},
        makers=(USER, ITEM, MILLISECONDS, constant("clicks")),
        header=False,
    ),
    "MIND": build(
        "a b c d e",
        TAB,
        {"user": "b", "item": "e", "timestamp": "c"},
        makers=(number(1, 1, "time"), code("U{}", "user"), CLOCK, HISTORY, SHOWN),
        header=False,
    ),
    "Open Bandit": build(
        "row timestamp item_id position click propensity_score user_feature_0",
        COMMA,
        {"user": "user_feature_0", "item": "item_id", "timestamp": "timestamp"},
        makers=(number(0, 1, "time"), FRACTION, ITEM, STARS, CLICK, constant(0.0294), HASH),
    ),
    "TREC run": build(
        "a q b r s tag",
        delimit(" "),
        {"user": "a", "item": "b"},
        makers=(USER, constant("Q0"), ITEM, number(1, 1, "item"), number(99, -1, "item"), constant("bm25")),
        header=False,
    ),
    "Yoochoose unnamed": build("a b c d", COMMA, SONGS, makers=(USER, ZULU, ITEM, constant(0)), header=False),
    "LastFM 360K unnamed": build(
        "a b c d",
        TAB,
        {"user": "a", "item": "b"},
        makers=(REVIEWER, PRODUCT, TITLE, number(11, 97, "stars")),
        header=False,
    ),
    "Gowalla unnamed": build(
        "a b c d e",
        TAB,
        {"user": "a", "item": "e"},
        makers=(USER, ZULU, constant(30.2), constant(-97.7), ITEM),
        header=False,
    ),
    "ratings without a threshold": build("user item rating time", COMMA, RATED, makers=FOUR_PLACES),
}
