"""How a route's weight is shared while its deployment goes from one version to another."""

from uuid import UUID

import pytest

from apps.deployments.policies.rollout import Pool
from apps.routing.policies import FINE, weights_while_rolling

pytestmark = pytest.mark.unit

V1, V2, OTHER = UUID(int=1), UUID(int=2), UUID(int=3)


def pool(number=1, **ready):
    return Pool(deployment_id=UUID(int=100 + number), ready={UUID(int=int(name[1:])): n for name, n in ready.items()})


def test_steady_deployments_leave_weights_as_they_are():
    weights = {V1: 90, OTHER: 10}
    assert weights_while_rolling(weights, [pool(v1=3), pool(2, v3=1)]) == weights
    assert weights_while_rolling(weights, []) == weights


def test_a_weight_is_shared_as_the_versions_are_ready_and_the_others_keep_theirs():
    shared = weights_while_rolling({V1: 90, OTHER: 10}, [pool(v1=2, v2=1), pool(2, v3=1)])
    assert shared == {V1: 60 * FINE, V2: 30 * FINE, OTHER: 10 * FINE}


def test_one_that_is_not_ready_yet_is_there_with_a_little_so_that_it_may_stand_in():
    assert weights_while_rolling({V1: 5}, [pool(v1=1, v2=0)]) == {V1: 5 * FINE, V2: 1}


def test_while_nothing_is_ready_the_target_itself_has_it_all():
    assert weights_while_rolling({V1: 5}, [pool(v1=0, v2=0)]) == {V1: 5 * FINE, V2: 1}


def test_another_deployment_of_the_version_counts_too():
    assert weights_while_rolling({V1: 4}, [pool(v1=0, v2=1), pool(2, v1=3)]) == {V1: 3 * FINE, V2: 1 * FINE}


def test_a_target_without_weight_gets_none():
    assert weights_while_rolling({V1: 0, OTHER: 1}, [pool(v1=1, v2=1)]) == {V1: 0, OTHER: 1}
