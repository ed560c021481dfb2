from qualm.registry.plugins import registry
from qualm.registry.plugins.column_names import ANSWERS, CONTEXT, DRAWN, QUESTION, SCORED, UNDER, of_estimators, of_metrics
from qualm.registry.plugins.internals import PREFIXES
from qualm.registry.sample import GENERATIONS


def test_columns_of_answers_are_those_of_generations():
    assert (
        set(ANSWERS) == set(GENERATIONS.names) and len(set(ANSWERS)) == len(ANSWERS) and {*DRAWN.values(), *UNDER.values()} <= set(ANSWERS)
    )


def test_every_plugin_reads_columns_that_there_are():
    for kind, (known, beginnings) in (("estimators", of_estimators()), ("metrics", of_metrics())):
        for name in registry.names(kind):
            plugin = registry.get(kind, name)
            if "NEEDS" not in plugin.declares:
                assert all(c in known or c.startswith(beginnings) for c in plugin.reads if beginnings or c in known), name
                assert [c for c in plugin.reads if c not in known and not (beginnings and c.startswith(beginnings))] == [], name
    assert {QUESTION, CONTEXT} <= of_estimators()[0] and "weights" in SCORED and of_estimators()[1] == (*UNDER, *PREFIXES)
