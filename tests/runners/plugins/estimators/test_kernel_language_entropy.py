import numpy as np
import pytest
from scipy.linalg import expm, fractional_matrix_power

from qualm.runners.contracts.estimators import EstimatorContext
from qualm.runners.plugins.estimators.kernel_language_entropy import kernel_language_entropy, von_neumann
from qualm.runners.runtime.settings import Settings
from tests.support.models.tiny_nli import Answered, Told

CONTEXT = EstimatorContext(Settings(progress=False))


def by_definition(shares, kernel, t=0.3, nu=1.0, kappa=1.0):
    """As the paper writes it, with matrix functions of SciPy: weights 1, 1/2, 0; -Tr(K ln K) of the kernel of unit trace."""
    n = len(shares)
    w = shares @ [1.0, 0.5, 0.0]
    w = w + w.T
    np.fill_diagonal(w, 0.0)
    laplacian = np.diag(w.sum(0)) - w
    k = expm(-t * laplacian) if kernel == "heat" else fractional_matrix_power(2 * nu / kappa**2 * np.eye(n) + laplacian, -nu)
    k = np.array([[k[i, j] / np.sqrt(k[i, i] * k[j, j]) for j in range(n)] for i in range(n)]) / n
    values = np.linalg.eigvals(k).real
    return -sum(v * np.log(v) for v in values if v > 1e-10)


def test_worked_examples():
    """red and red are joined by 2: exp(-.3 L) has .650597 and .349403 there; scaled, .512431, .154236 and 1/3 are the eigenvalues."""
    r = (1 - np.exp(-1.2)) / (1 + np.exp(-1.2))
    hand = -sum(v * np.log(v) for v in ((1 + r) / 3, (1 - r) / 3, 1 / 3))
    texts = [["red", "red", "blue"]]
    assert kernel_language_entropy(CONTEXT, texts)[0] == pytest.approx(hand) == pytest.approx(0.997216, abs=1e-6)
    assert kernel_language_entropy(CONTEXT, texts, kernel="matern")[0] == pytest.approx(1.011404, abs=1e-6)


@pytest.mark.parametrize("kernel", ["heat", "matern"])
@pytest.mark.parametrize("weights", ["likeliest", "probability"])
def test_against_matrix_functions(kernel, weights):
    rng = np.random.default_rng(0)
    words = list("abcdef")
    logits = {(a, b): rng.normal(size=3) * 2 for a in words for b in words}
    logits |= {(a, a): np.array([50.0, 0.0, -50.0]) for a in words}
    context = Answered(Told({pair: tuple(row) for pair, row in logits.items()}))
    shares = np.array([[np.exp(logits[a, b]) / np.exp(logits[a, b]).sum() for b in words] for a in words])
    if weights == "likeliest":
        shares = np.eye(3)[shares.argmax(-1)]
    options = {"t": 0.4, "nu": 1.5, "kappa": 2.0}
    value = kernel_language_entropy(context, [words], kernel=kernel, weights=weights, **options)[0]
    assert value == pytest.approx(by_definition(shares, kernel, **options), abs=1e-9)


def test_from_all_alike_to_all_apart():
    assert kernel_language_entropy(CONTEXT, [list("abcdefghij")])[0] == pytest.approx(np.log(10))
    assert von_neumann(np.full((3, 3), 2.0)) == pytest.approx(0.0, abs=1e-9)
