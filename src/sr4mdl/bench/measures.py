"""Tables of the report that come from documents: the network and the speed."""

from collections.abc import Sequence
from typing import Any, Final

from sr4mdl.bench.documents import Document

Table = tuple[list[str], list[list[str]]]

VALUE_MEASURES: Final = {
    "rmse": "RMSE",
    "r2": "R2",
    "auc": "AUC",
    "spearman": "Spearman",
    "pearson": "Pearson",
    "ndcg5": "NDCG5",
}
_PARTS: Final = {"all": "all states", "root": "roots"}


def of_kind(documents: Sequence[Document], kind: str) -> list[Document]:
    """Return the documents of one command."""
    return [document for document in documents if document["bench"] == kind]


def casestudy_table(case: dict[str, Any]) -> Table:
    """Return the steps of one derivation."""
    header = ["step", "right move makes", "missing", "estimated", "after right move"]
    header += ["wrong moves", "at or below right one", "policy prefers"]
    body = []
    for number, step in enumerate(case["steps"]):
        cells = [
            str(number),
            "-" if step["move"] is None else f"`{step['move']}`",
            f"{step['missing']:g}",
            f"{step['estimate']:.1f} +- {step['spread']:.1f}",
        ]
        if step["move"] is None:
            cells += ["-"] * 4
        else:
            cells += [
                f"{step['right']:.1f} +- {step['right_spread']:.1f}",
                str(len(step["wrong"])),
                f"{100 * step['share_at_or_below']:.1f} %",
                f"{100 * step['share_by_policy']:.1f} %",
            ]
        body.append(cells)
    return header, body


def value_table(documents: Sequence[Document]) -> Table:
    """Return the measures of lengths estimated on generated pairs."""
    header = ["network", "pairs", "rows", "constants", *VALUE_MEASURES.values()]
    body = [
        [
            document["name"],
            str(document["pairs"]),
            str(document["rows"]),
            document.get("formula_constants", "-"),
            *(f"{document[name]:.3f}" for name in VALUE_MEASURES),
        ]
        for document in documents
    ]
    return header, body


def setting_text(setting: float | str) -> str:
    """Return the setting of a panel's record as people write it."""
    return setting if isinstance(setting, str) else f"{setting:g}"


def panel_table(documents: Sequence[Document], panel: str) -> Table:
    """Return one ablation panel."""
    header = ["network", panel, "RMSE", "RMSE / mean length", "AUC"]
    body = [
        [
            document["name"],
            setting_text(record[panel]),
            f"{record['rmse']:.2f}",
            f"{record['relative_rmse']:.3f}",
            f"{record['auc']:.3f}",
        ]
        for document in documents
        for record in document["panels"].get(panel, [])
    ]
    return header, body


def guidance_table(documents: Sequence[Document]) -> Table:
    """Return how high correct moves are ranked, by policy and by value."""
    header = ["suite", "states", "ranked by", "number", "first", "top 3", "top 10"]
    header += ["top 30", "by chance, first", "value AUC"]
    body = []
    for document in documents:
        ways = {"policy": document, "value": document.get("by_value")}
        for way, parts in ways.items():
            if parts is None:
                continue
            for part, title in _PARTS.items():
                entry = parts[part]
                if not entry["n_states"]:
                    continue
                auc = entry.get("value_auc")
                body.append(
                    [
                        document["suite"],
                        title,
                        way,
                        str(entry["n_states"]),
                        *(f"{100 * entry[f'top{k}']:.1f} %" for k in (1, 3, 10, 30)),
                        f"{100 * entry['by_chance']:.1f} %",
                        "-" if auc is None else f"{auc:.3f}",
                    ]
                )
    return header, body


def speed_table(document: Document) -> Table:
    """Return the figures of one run of the speed suite."""
    body = []
    guide = document.get("guide")
    if guide:
        rows = f"{guide['columns']} columns, {guide['rows']} rows"
        for key, threads in (
            ("states_per_s_1_thread", "one thread"),
            ("states_per_s_2_threads", "two threads"),
        ):
            body.append([f"network, states/s, {rows}, {threads}", f"{guide[key]:.0f}"])
        if "ratio_to_paper" in guide:
            body.append(
                [
                    f"the same against the paper's network at {guide['paper_rows']} "
                    f"rows ({guide['paper_states_per_s_2_threads']:.1f} states/s)",
                    f"{guide['ratio_to_paper']:.1f} times",
                ]
            )
            body.append(
                [
                    "the same against itself without integer products "
                    f"({guide['float32_states_per_s_2_threads']:.0f} states/s)",
                    f"{guide['ratio_to_float32']:.2f} times",
                ]
            )
        else:
            body.append(["against the paper's network", guide["paper_missing"]])
    closing = document.get("closing")
    if closing:
        body += [
            [
                f"closing, {tier}: candidates fitted and scored per second",
                f"{closing[f'{tier}_candidates_per_s']:,.0f}",
            ]
            for tier in ("quick", "medium", "full")
            if f"{tier}_candidates_per_s" in closing
        ]
    if evaluation := document.get("evaluation"):
        body.append(
            [
                f"evaluation against a numpy function per formula "
                f"({evaluation['n_expressions']:,} formulas, "
                f"{evaluation['n_rows']} rows)",
                f"{evaluation['ratio']:.1f} times",
            ]
        )
    if simplify := document.get("simplify"):
        body.append(
            [
                "simplifier against sympy.simplify "
                f"({simplify['n_formulas']} formulas, "
                f"time-out {simplify['timeout']:g} s)",
                f"{simplify['ratio']:.0f} times",
            ]
        )
    body.append(
        [
            "load average before and after",
            f"{document['load_before']:g}, {document['load_after']:g} on "
            f"{document['cores']} cores",
        ]
    )
    return ["what", "figure"], body
