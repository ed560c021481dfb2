from qualm.runners.contracts.perturbations import PerturbContext, random_generator
from qualm.runners.runtime.settings import Settings


def test_random_numbers_depend_on_seed_variant_and_sample_alone():
    def number(*names):
        return int(random_generator(*names).integers(2**62))

    assert number(7, "blur", "a") == number(7, "blur", "a")
    assert len({number(7, "blur", "a"), number(8, "blur", "a"), number(7, "blu", "ra"), number(7, "blur", "b")}) == 4
    assert int(random_generator(7, "blur@radius=2.0", "a").integers(10**6)) == 271152, "another number would change published results"


def test_what_lasts_is_made_once_and_what_is_dropped_is_counted():
    context = PerturbContext(Settings(), 7, "v")
    made = []
    assert [context.once("model", lambda: made.append(1) or "opened") for _ in range(3)] == ["opened"] * 3 and len(made) == 1
    context.drop("no noun")
    context.drop("no noun", 2)
    assert context.dropped == {"no noun": 3}
