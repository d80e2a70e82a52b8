"""The DAGs of Airflow. Point `dags_folder` here, or import them from a DAG file of your own."""
